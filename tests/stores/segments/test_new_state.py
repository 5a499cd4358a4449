"""A whole new state of many files is brought with segments of its own, of which a log holds the names alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import msgspec
import pytest

from singerlake.format import layout
from singerlake.format.exact_json import decode
from singerlake.format.state.additions import Conflict
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList, Run, touching
from singerlake.format.state.files.segment import Segment, describe
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import Change, Rebase
from singerlake.stores.port import Loaded
from singerlake.stores.segments.objects import SegmentObjects, checksum, to_text
from singerlake.stores.segments.stored import named_in
from singerlake.upkeep.gc.segments import collect_segments
from tests.format.state.test_fold import add, new_file
from tests.storage.memory import Step
from tests.stores.segments.sizes import TINY, few_files_make_segments  # noqa: F401
from tests.stores.stores import KINDS, ON_THE_LAKE, Place, make_place

KEY = layout.manifest_key("t", "s")
LOG = layout.log_prefix("t", "s")
SEGMENTS = layout.segments_prefix("t", "s")
MANY = 11
WITH_RECORDS = ("log", "merge", "dynamodb")


class Elsewhere:
    """Segments that are nowhere in the lake."""

    lost = ()

    def __init__(self) -> None:
        self.files: dict[str, tuple[DataFile, ...]] = {}

    def keep(self, files: Sequence[DataFile]) -> Segment:
        name = f"{files[0].offset:020d}-{'0' * 16}"
        self.files[name] = tuple(files)
        return describe(files, name=name, sha256=checksum(to_text(files)))

    def load(self, segment: Segment) -> Run:
        return AppendOnlyList(self.files[segment.name])

    def load_each(self, segments: Sequence[Segment], *, stored: bool = False) -> Iterator[Run]:
        del stored
        return map(self.load, segments)

    def touching(self, segment: Segment, start: int, stop: int) -> Run:
        return touching(self.load(segment), start, stop)


def filled(place: Place) -> Loaded:
    return place.committed(place.born(), add(*(new_file(f"f{each}") for each in range(MANY))))


def made_anew(place: Place, state: Manifest) -> Manifest:
    """The same files in another order, with segments from elsewhere and a tail."""
    files: list[DataFile] = []
    for file in reversed(state.files):
        files.append(msgspec.structs.replace(file, offset=files[-1].end if files else 0))
    shelf = Elsewhere()
    parts = [shelf.keep(files[at : at + 4]) for at in range(0, 8, 4)]
    return msgspec.structs.replace(state, lineage=place.ids(), files=FileList(files[8:], parts=parts, source=shelf))


def bodies(place: Place, prefix: str) -> dict[str, bytes]:
    found = {entry.key: place.storage.get(entry.key) for entry in place.storage.list(prefix)}
    return {key: stored.body for key, stored in found.items() if stored is not None}


def names(place: Place) -> set[str]:
    found = (layout.segment_name_in(key[len(SEGMENTS) :]) for key in bodies(place, SEGMENTS))
    return {name for name in found if name is not None}


def new_states(place: Place) -> dict[str, bytes]:
    found = bodies(place, LOG)
    return {key: body for key, body in found.items() if layout.log_own_name_parts(key[len(LOG) :]) is not None}


def test_everybody_has_it_from_then_on(place: Place) -> None:
    base = filled(place)
    after = made_anew(place, base.manifest)
    outcome = place.commit(base, Rebase(manifest=after))
    assert isinstance(outcome, Loaded)
    for state in (outcome.manifest, place.state()):
        assert (state.files, state.lineage, state.next_offset) == (after.files, after.lineage, after.next_offset)
        assert state.transaction.number == base.manifest.transaction.number + 1
    place.store().publish(outcome, run_ended=True)
    shown = place.lake.stream("t", "s").snapshot()
    assert (shown.files, shown.lineage) == (after.files, after.lineage)
    more = place.committed(outcome, add(new_file("more")))
    assert [file.id for file in more.manifest.files] == [*(file.id for file in after.files), "more"]
    assert place.state().files == more.manifest.files


@pytest.mark.parametrize("kind", ["log", "merge"])
def test_a_log_holds_names_of_segments_and_not_their_files(kind: str) -> None:
    place = Place(kind)
    base = filled(place)
    number = base.manifest.transaction.number + 1
    outcome = place.commit(base, Rebase(manifest=made_anew(place, base.manifest)))
    assert isinstance(outcome, Loaded)
    stored = place.storage.get(LOG + layout.log_name(outcome.manifest.transaction.number))
    assert stored is not None
    record = decode(stored.body, object)
    assert isinstance(record, dict)
    transaction = record["transaction"] if kind == "log" else record["entries"][0]["transaction"]
    assert transaction["change"]["kind"] == "rebase"
    assert len(transaction["change"]["manifest"]["files"]) <= TINY.tail
    [(key, body)] = new_states(place).items()
    assert layout.log_own_name_parts(key[len(LOG) :]) == (number, "snapshot")
    named = {segment["name"] for segment in transaction["change"]["manifest"]["segments"]}
    assert (
        {segment.name for segment in named_in(body)}
        == named
        == {segment.name for segment in outcome.manifest.files.segments}
    )
    assert len(named) == MANY // TINY.segment + (MANY % TINY.segment > TINY.tail)


def test_a_collector_leaves_it_alone_before_manifest_json_names_it(place: Place) -> None:
    base = filled(place)
    place.store().publish(base, run_ended=True)
    outcome = place.commit(base, Rebase(manifest=made_anew(place, base.manifest)))
    assert isinstance(outcome, Loaded)
    for _ in range(4):
        collect_segments(SegmentObjects(place.storage, "t", "s"), time=place.clock.now, grace=timedelta(0), delete=True)
    assert place.state().files == outcome.manifest.files
    place.store().publish(outcome, run_ended=True)
    assert place.lake.stream("t", "s").snapshot().files == outcome.manifest.files


@pytest.mark.parametrize("kind", WITH_RECORDS)
def test_a_trim_takes_what_was_kept_beside_the_log(kind: str, request: pytest.FixtureRequest) -> None:
    place = make_place(kind, request)
    base = filled(place)
    outcome = place.commit(base, Rebase(manifest=made_anew(place, base.manifest)))
    assert isinstance(outcome, Loaded)
    before = new_states(place)
    assert before
    later = place.committed(outcome, add(new_file("a")), add(new_file("b")), add(new_file("c")))
    if kind == "merge":
        # It keeps the records that the next ones are written by.
        place.clock.sleep(3600)
        later = place.committed(later, add(new_file("d")))
    place.store().trim(keep=0, dry_run=False)
    assert not before.keys() & new_states(place).keys()
    assert place.state().files == later.manifest.files
    if kind in ON_THE_LAKE:
        place.storage.delete(KEY)
        assert place.state().files == later.manifest.files


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_one_that_is_killed_anywhere_is_there_whole_or_not_at_all(kind: str) -> None:
    for kill_at in range(200):
        place = Place(kind)
        base = filled(place)
        after = made_anew(place, base.manifest)
        steps = 0

        def dies(step: Step, kill_at: int = kill_at) -> None:
            nonlocal steps
            steps += 1
            if steps > kill_at:
                raise Killed

        place.storage.hook = dies
        try:
            outcome: Loaded | Conflict | None = place.commit(base, Rebase(manifest=after))
        except Killed:
            outcome = None
        finally:
            place.storage.hook = _no_hook
        place.clock.sleep(60)
        seen = place.state()
        assert seen.files in (base.manifest.files, after.files)
        if outcome is not None:
            assert isinstance(outcome, Loaded)
            assert seen.files == after.files
            return
        goes_on(place, add(new_file("more")))
    raise AssertionError("it never came to its end")


def goes_on(place: Place, change: Change) -> None:
    loaded = place.loaded()
    assert place.committed(loaded, change).manifest.files[-1].id == "more"


def _no_hook(_: Step) -> None:
    """Nothing happens."""


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_is_born_with_it(kind: str, request: pytest.FixtureRequest) -> None:
    old = Place("lockfile")
    state = filled(old).manifest
    place = make_place(kind, request)
    born = msgspec.structs.replace(made_anew(place, state), store=kind)
    loaded = place.store().create(born)
    assert loaded.manifest.files == born.files
    assert place.state().files == born.files
    shown = place.lake.stream("t", "s").snapshot()
    assert shown.files == born.files
    if kind != "postgres":
        stored = place.storage.get(KEY)
        assert stored is not None
        assert {segment.name for segment in named_in(stored.body)} <= names(place)
    goes_on(place, add(new_file("more")))

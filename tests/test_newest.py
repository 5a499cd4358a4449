"""Polling: what a query asks storage for while nothing is new, and what it sees when something is."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from singerlake.errors import CorruptObjectError, ForeignManifestError, LostStateError
from singerlake.format import layout
from singerlake.format.decision import aborted
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import Manifest
from singerlake.format.state.prepared import brought
from singerlake.format.state.transactions import Close, Rebase, ReplaceFiles
from singerlake.newest import StateReader
from tests.format.state.test_fold import add, new_file
from tests.lakes import build_stream
from tests.storage.memory import Step
from tests.stores.atomic.runs import Runs
from tests.stores.atomic.test_commit_run import prepared
from tests.stores.stores import IN_A_DATABASE, KINDS, ON_THE_LAKE, Place
from tests.upkeep.migrate.moving import migrate

KEY = layout.manifest_key("t", "s")


def follower(place: Place) -> StateReader:
    return place.lake.stream("t", "s").state_reader()


def asked(place: Place, action: Callable[[], object]) -> list[str]:
    """The operations on storage that an action takes."""
    steps: list[Step] = []
    place.storage.hook = steps.append
    action()
    place.storage.hook = lambda step: None
    return [step.operation for step in steps if not step.done]


def publish_as(place: Place, kind: str, manifest: Manifest) -> None:
    """What a database's writers leave on the lake."""
    place.storage.put(KEY, to_json(msgspec.structs.replace(manifest, store=kind)))


@pytest.mark.parametrize("files", [1, 200])
@pytest.mark.parametrize(
    ("kind", "cheap"),
    [("lockfile", ["head"]), ("log", ["head"]), ("merge", ["head"])],
)
def test_while_nothing_is_new_a_look_is_one_request_that_reads_no_manifest(
    kind: str, cheap: list[str], files: int
) -> None:
    place = Place(kind)
    place.committed(place.born(), add(*(new_file(f"f{n}") for n in range(files))))
    polled = follower(place)
    assert len(polled.look().files) == files
    polled.look()
    missing: list[str] = []
    place_get = place.storage.get

    def get(key: str) -> object:
        found = place_get(key)
        missing.append(key if found is None else f"found {key}")
        return found

    place.storage.get = get  # type: ignore[method-assign, assignment]
    for _ in range(20):
        assert asked(place, polled.look) == cheap
    assert all(not key.startswith("found") for key in missing)


@pytest.mark.parametrize("outcome", ["committed", "aborted"])
def test_while_a_run_is_undecided_a_look_is_one_request_too(outcome: str) -> None:
    place = Place("log")
    runs = Runs(place)
    runs.append("s", new_file("a"))
    commit = f"20260101T000000.000000Z-{'a' * 16}"
    state = prepared(runs, "s", commit, "b").manifest
    polled = follower(place)
    assert [file.id for file in polled.look().files] == ["a"]
    for _ in range(20):
        assert asked(place, polled.look) == ["head"]
    against = aborted(commit, at=place.clock.now(), writer="x", run=None)
    new = brought(state)
    assert new is not None
    agreed = msgspec.structs.replace(against, committed=True, streams={"s": new})
    runs.decisions.decide(agreed if outcome == "committed" else against)
    assert [file.id for file in polled.look().files] == (["a", "b"] if outcome == "committed" else ["a"])
    assert asked(place, polled.look) == ["head"]
    runs.append("s", new_file("c"))
    assert polled.look() == place.state("s")


@pytest.mark.parametrize("kind", IN_A_DATABASE)
def test_what_a_database_publishes_is_polled_by_one_head(kind: str) -> None:
    place = Place("lockfile")
    base = place.committed(place.born(), add(new_file("a")))
    publish_as(place, kind, base.manifest)
    polled = follower(place)
    assert [file.id for file in polled.look().files] == ["a"]
    assert asked(place, polled.look) == ["head"]
    later = msgspec.structs.replace(base.manifest, next_offset=base.manifest.next_offset + 1)
    publish_as(place, kind, later)
    assert asked(place, polled.look) == ["head", "get"]
    assert polled.look().next_offset == later.next_offset


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_each_change_is_seen_at_the_next_poll(kind: str) -> None:
    place = Place(kind)
    base, polled = place.born(), follower(place)
    assert len(polled.look().files) == 0
    for change, listed in [
        (add(new_file("a")), ["a"]),
        (add(new_file("b"), new_file("c")), ["a", "b", "c"]),
        (ReplaceFiles(old=("a", "b"), new=(new_file("ab", 6),)), ["ab", "c"]),
    ]:
        base = place.committed(base, change)
        assert [file.id for file in polled.look().files] == listed
        assert polled.look() == place.state()
    fresh = msgspec.structs.replace(place.state(), lineage="another")
    place.committed(base, Rebase(manifest=fresh))
    assert polled.look().lineage == "another"


@pytest.mark.parametrize("kind", ["log", "merge"])
def test_what_a_log_holds_beyond_the_manifest_is_seen_and_only_that_is_read(kind: str) -> None:
    place = Place(kind)
    base, polled = place.born(), follower(place)
    polled.look()
    for number in range(5):
        base = place.committed(base, add(new_file(f"f{number}")))
    keys: list[Step] = []
    place.storage.hook = keys.append
    assert len(polled.look().files) == 5
    assert not {step.key for step in keys} & {KEY}
    assert "list" not in {step.operation for step in keys}


@pytest.mark.parametrize("kind", ["log", "merge"])
def test_a_trim_of_the_log_is_survived(kind: str) -> None:
    place = Place(kind)
    base, polled = place.born(), follower(place)
    polled.look()
    for number in range(4):
        base = place.committed(base, add(new_file(f"f{number}")))
    place.clock.sleep(100)
    place.store().trim(keep=0, dry_run=False)
    assert len(polled.look().files) == 4
    place.committed(base, add(new_file("last")))
    assert len(polled.look().files) == 5


@pytest.mark.parametrize(("old", "new"), [(old, new) for old in ON_THE_LAKE for new in ON_THE_LAKE if old != new])
def test_a_migration_is_followed(old: str, new: str) -> None:
    place = Place(old)
    base, polled = place.committed(place.born(), add(new_file("a"))), follower(place)
    before = polled.look()
    migrate(place, new)
    assert polled.look().lineage == before.lineage
    moved = place.store(kind=new).load()
    assert moved is not None
    place.kind = new
    place.committed(moved, add(new_file("b")))
    assert [file.id for file in polled.look().files] == ["a", "b"]
    del base


@pytest.mark.parametrize("kind", ["log", "merge"])
def test_a_stream_that_is_closed_and_not_yet_born_again_is_polled_cheaply(kind: str) -> None:
    place = Place(kind)
    base, polled = place.committed(place.born(), add(new_file("a"))), follower(place)
    polled.look()
    place.committed(base, Close(successor="lockfile"))
    assert [file.id for file in polled.look().files] == ["a"]
    polled.look()
    assert asked(place, polled.look) == ["read_range"]


def test_nothing_yet_is_an_empty_state() -> None:
    place = Place("lockfile")
    polled = follower(place)
    assert (polled.look().lineage, polled.look().next_offset) == (None, 0)
    place.committed(place.born(), add(new_file("a")))
    assert len(polled.look().files) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_manifest_of_another_stream_is_refused(kind: str) -> None:
    place = Place("lockfile")
    base, polled = place.born(), follower(place)
    polled.look()
    publish_as(place, kind, msgspec.structs.replace(base.manifest, stream="S"))
    with pytest.raises(ForeignManifestError):
        polled.look()


def test_a_manifest_that_cannot_be_read_is_refused_and_one_that_is_mended_is_followed() -> None:
    place = Place("lockfile")
    base, polled = place.committed(place.born(), add(new_file("a"))), follower(place)
    polled.look()
    stored = place.storage.get(KEY)
    assert stored is not None
    place.storage.put(KEY, b'{"format":1,')
    for _ in range(2):
        with pytest.raises(CorruptObjectError):
            polled.look()
    place.storage.put(KEY, stored.body)
    assert polled.look() == from_json(stored.body, key=KEY) == base.manifest


def test_a_look_that_failed_leaves_nothing_to_go_on_from() -> None:
    place = Place("log")
    base, polled = place.born(), follower(place)
    polled.look()
    place.committed(base, Close(successor="lockfile"))
    polled.look()
    for entry in list(place.storage.list("raw/")):
        place.storage.delete(entry.key)
    place.storage.put(KEY, b'{"format":1,')
    with pytest.raises(CorruptObjectError):
        polled.look()
    place.storage.delete(KEY)
    place.committed(place.born(), add(new_file("b")))
    assert [file.id for file in polled.look().files] == ["b"]


def test_a_birth_between_two_looks_is_not_taken_for_lost_state() -> None:
    """The first look finds no state; the listing after it finds the file that was committed meanwhile."""
    place = Place("lockfile")
    born: list[Manifest] = []

    def between(step: Step) -> None:
        if (step.operation, step.key, step.done) == ("list", layout.stream_prefix("t", "s"), False) and not born:
            place.storage.hook = lambda step: None
            born.append(build_stream(place.lake, "t", "s", {"properties": {}}, [{"n": 1}]))

    place.storage.hook = between
    assert len(follower(place).look().files) == 1
    assert born


def test_a_state_that_is_lost_is_an_error_that_says_what_to_do() -> None:
    place = Place("lockfile")
    build_stream(place.lake, "t", "s", {"properties": {}}, [{"n": 1}])
    polled = follower(place)
    polled.look()
    place.storage.delete(KEY)
    for each in (polled, follower(place)):
        with pytest.raises(LostStateError, match="run 'singerlake rebuild', then start again"):
            each.look()

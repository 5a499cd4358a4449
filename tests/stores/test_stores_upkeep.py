"""What every manifest store does for readers and for its own size, publishing the state and trimming what is behind it,
and what it makes of erased records."""

from __future__ import annotations

import msgspec
import pytest

from singerlake.errors import ForeignManifestError
from singerlake.format import layout
from singerlake.format.state import fold
from singerlake.format.state.additions import Conflict
from singerlake.format.state.features import features_of
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import EraseFiles, Rebase, ReplaceFiles
from singerlake.stores.port import Loaded
from singerlake.stores.segments.stored import read_manifest
from tests.format.state.test_fold import add, new_file, with_holes
from tests.stores.stores import Place

KEY = layout.manifest_key("t", "s")


def test_a_birth_is_published_for_readers(place: Place) -> None:
    born = place.born()
    stored = place.storage.get(KEY)
    assert stored is not None
    assert read_manifest(stored.body, key=KEY, storage=place.storage) == born.manifest


@pytest.mark.crossed("place", "field")
@pytest.mark.parametrize("field", ["tap", "stream", "store"])
def test_another_s_manifest_is_refused_and_stays_as_it_is(place: Place, field: str) -> None:
    body = to_json(msgspec.structs.replace(place.first(), **{field: "other"}))
    place.storage.put(KEY, body)
    with pytest.raises(ForeignManifestError, match=field):
        place.born()
    stored = place.storage.get(KEY)
    assert stored is not None
    assert stored.body == body


def test_publishing_goes_upwards_only(place: Place) -> None:
    older = place.born()
    newer = place.committed(older, *(add(new_file(f"f{number}")) for number in range(3)))
    place.store().publish(newer, run_ended=True)
    for state in (older, newer):
        place.store().publish(state, run_ended=True)
        stored = place.storage.get(KEY)
        assert stored is not None
        assert read_manifest(stored.body, key=KEY, storage=place.storage) == newer.manifest


def test_what_is_old_is_published_by_whoever_sees_it(place: Place) -> None:
    newer = place.committed(place.born(), add(new_file("a")))
    place.clock.seconds += 601
    place.store().publish(newer)
    stored = place.storage.get(KEY)
    assert stored is not None
    assert read_manifest(stored.body, key=KEY, storage=place.storage).transaction == newer.manifest.transaction


def test_trimming_is_a_dry_run_unless_asked_and_changes_no_state(place: Place) -> None:
    behind = place.born()
    base = place.committed(behind, *(add(new_file(f"f{number}")) for number in range(8)))
    before = place.state()
    objects = {entry.key for entry in place.storage.list("raw/")}
    planned = place.store().trim(keep=2)
    assert {entry.key for entry in place.storage.list("raw/")} == objects
    done = place.store().trim(keep=2, dry_run=False)
    assert (planned.floor, planned.transactions) == (done.floor, done.transactions)
    assert place.state() == before
    caught = place.store().catch_up(behind)
    assert caught is not None
    assert caught.manifest == before
    place.committed(behind, add(new_file("late")))
    place.committed(base, add(new_file("later")))
    assert place.listed() == [*(f"f{number}" for number in range(8)), "late", "later"]


def test_trimming_again_and_again_keeps_the_stream_whole(place: Place) -> None:
    base = place.born()
    for number in range(6):
        base = place.committed(base, add(new_file(f"f{number}")))
        place.store().trim(keep=number % 3, dry_run=False)
        assert place.listed() == [f"f{each}" for each in range(number + 1)]


def test_records_are_erased_atomically_and_once(place: Place) -> None:
    base = place.committed(place.born(), add(new_file("a", 3), new_file("b", 2)), add(new_file("c", 1)))
    assert features_of(place.state()) == segments_in(place.state())
    change = EraseFiles(old=("b",), new=(with_holes(new_file("b1", 2), 1),))
    for _ in range(2):
        place.committed(base, change)
        state = place.state()
        assert [(file.id, file.offset, file.records, file.erased) for file in state.files] == [
            ("a", 0, 3, 0),
            ("b1", 3, 1, 1),
            ("c", 5, 1, 0),
        ]
    assert [(gone.id, gone.by) for gone in state.retired] == [("b", "b1")]
    caught = place.store().catch_up(base)
    assert caught is not None
    assert (features_of(state), caught.manifest) == (("erased", *segments_in(state)), state)


def segments_in(state: Manifest) -> tuple[str, ...]:
    """The feature of a state with segments: here tests may run on lists that are cut after a few files."""
    return ("segments",) if state.files.segments else ()


def test_holes_stay_when_their_files_are_joined_and_go_with_the_state(place: Place) -> None:
    base = place.committed(place.born(), add(new_file("a", 3), new_file("b", 2)))
    base = place.committed(base, EraseFiles(old=("a",), new=(with_holes(new_file("a1", 3), 3),)))
    base = place.committed(base, ReplaceFiles(old=("a1", "b"), new=(with_holes(new_file("ab", 5), 3),)))
    base = place.committed(base, EraseFiles(old=("ab",), new=(with_holes(new_file("ab1", 5), 4),)))
    state = place.state()
    assert [(file.id, file.records, file.erased) for file in state.files] == [("ab1", 1, 4)]
    assert (features_of(state), base.manifest) == (("erased",), state)
    place.store().publish(base, run_ended=True)
    assert place.state() == state
    rebuilt = fold.apply(place.first(), place.transaction(add(new_file("z", 7))))
    assert isinstance(rebuilt, Manifest)
    after = place.committed(base, Rebase(manifest=rebuilt))
    assert (place.state(), features_of(place.state())) == (after.manifest, ())


def test_of_an_erasure_and_a_replacement_of_one_file_one_is_a_conflict(place: Place) -> None:
    base = place.committed(place.born(), add(new_file("a", 3), new_file("b", 2)))
    one = place.commit(base, EraseFiles(old=("b",), new=(with_holes(new_file("b1", 2), 1),)))
    other = place.commit(base, ReplaceFiles(old=("a", "b"), new=(new_file("ab", 5),)))
    late = place.commit(base, EraseFiles(old=("b",), new=(with_holes(new_file("b2", 2), 2),)))
    assert isinstance(one, Loaded)
    assert isinstance(other, Conflict)
    assert isinstance(late, Conflict)
    assert place.listed() == ["a", "b1"]

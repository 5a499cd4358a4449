"""Rebuilding streams with attached files at every manifest store: the data files alone know the rows."""

from __future__ import annotations

import gzip
from typing import Any

import msgspec
import pytest

from singerlake.format import layout
from singerlake.format.state.attached_objects import objects_in
from singerlake.format.state.features import features_of
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import CollectFiles, Rebase, RetireFiles
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from singerlake.upkeep.rebuild.repair import Repair
from singerlake.upkeep.scan import scan
from tests.stores.stores import Place
from tests.upkeep.attached.photos import (
    THREE,
    Photos,
    add,
    begun,
    check,
    digest,
    expected,
    retired,
    stored,
    told,
    verified,
)
from tests.upkeep.erase.erasing import erase
from tests.upkeep.gc.test_stores import collect, days
from tests.upkeep.vacuum.test_stores import PREFIX, vacuum

pytestmark = pytest.mark.in_turn("place")


def repair(place: Place, **wish: bool) -> Repair:
    return repair_stream(place.context(), RepairOptions(**wish))


def lose(place: Place) -> None:
    """The state is gone, of the stores that keep it on the lake alone."""
    for entry in list(place.storage.list(PREFIX)):
        if entry.key == PREFIX + layout.MANIFEST or "/_log/" in entry.key:
            place.storage.delete(entry.key)


@pytest.mark.parametrize("kind", ["lockfile", "log", "merge"])
def test_a_lost_state_is_made_again_from_files_alone(kind: str) -> None:
    place = Place(kind)
    begun(place)
    vacuum(place)
    erase(place, 1)
    add(place, [["e"]])
    lose(place)
    assert told(place.opened().stream("t", "s").snapshot()) == expected([*THREE, ["e"]], 1)
    repair(place)
    check(place, [*THREE, ["e"]], 1)


def test_what_was_erased_is_collected_after_a_rebuild_too(place: Place) -> None:
    """By the state that is made anew, whatever became of the files that it makes it from."""
    begun(place)
    erase(place, 1)
    repair(place, discard=True)
    assert (retired(place), features_of(place.state())) == ({"b": "retired"}, ("attached", "erased"))
    for _ in range(2):
        collect(place)
        days(place, 8)
    assert stored(place) == ["a", "c", "d"]
    repair(place, discard=True)
    # Nobody may use the object again: a collector that stood still may delete it yet.
    assert retired(place) == {"b": "deleted"}
    add(place, [["b"]])
    assert stored(place) == ["a", "b'", "c", "d"]
    check(place, [*THREE, ["b"]], 1)


@pytest.mark.parametrize("kind", ["lockfile", "log", "merge"])
@pytest.mark.parametrize("damaged", [False, True])
def test_what_was_erased_is_collected_after_a_state_was_lost(kind: str, damaged: bool) -> None:
    """As long as the file that it was erased from is there. A damaged one may have rows of it, too."""
    place = Place(kind)
    before = begun(place)
    erase(place, 1)
    if damaged:
        place.storage.put(PREFIX + before.files[2].path, b"no gzip")
    lose(place)
    repair(place)
    assert retired(place) == ({} if damaged else {"b": "retired"})


def test_rows_that_a_state_lost_come_back_and_their_objects_are_retired_no_more(place: Place) -> None:
    before = begun(place)
    base = place.loaded()
    bare = msgspec.structs.replace(
        before, files=[msgspec.structs.replace(file, attached=()) for file in before.files], format=1
    )
    base = place.committed(base, Rebase(manifest=bare))
    place.committed(base, RetireFiles(files=((digest("a"), f"_files/{digest('a')[:2]}/{digest('a')}"),)))
    assert retired(place) == {"a": "retired"}
    done = repair(place)
    assert done.difference.mended == tuple(file.id for file in before.files)
    assert (retired(place), place.state().lineage) == ({}, before.lineage)
    check(place, THREE)
    assert not repair(place).needed


def test_rows_that_a_state_lost_stay_lost_once_their_object_is_being_deleted(place: Place) -> None:
    before = begun(place)
    base = place.loaded()
    bare = msgspec.structs.replace(before, files=[msgspec.structs.replace(file, attached=()) for file in before.files])
    base = place.committed(base, Rebase(manifest=bare))
    path = f"_files/{digest('a')[:2]}/{digest('a')}"
    place.committed(
        base,
        RetireFiles(files=((digest("a"), path),)),
        CollectFiles(shown=(digest("a"),)),
        CollectFiles(deleted=(digest("a"),)),
    )
    with pytest.raises(Exception, match="being deleted"):
        repair(place)
    assert told(place.state()) == {}


def test_a_file_that_was_never_committed_is_adopted_with_its_photos(place: Place) -> None:
    begun(place)
    photos: list[Photos] = [*THREE, ["e"], []]
    add(place, photos[6:])
    base = place.loaded()
    files = base.manifest.files
    whole = msgspec.structs.replace(base.manifest, files=files[:3], next_offset=6, lineage="restored")
    place.committed(base, Rebase(manifest=whole))
    assert set(objects_in(place.state().files)) == {digest(name) for name in "abcd"}
    repair(place, adopt=True)
    assert [file.id for file in place.state().files] == [file.id for file in files]
    check(place, photos)


def test_what_has_a_photo_that_is_being_deleted_is_not_adopted_and_all_else_is(place: Place) -> None:
    begun(place)
    photos: list[Photos] = [*THREE, ["b"], [], ["e"], []]
    add(place, photos[6:])
    base = place.loaded()
    files = base.manifest.files
    whole = msgspec.structs.replace(base.manifest, files=files[:3], next_offset=6, lineage="restored")
    place.committed(base, Rebase(manifest=whole))
    erase(place, 1)
    for _ in range(2):
        collect(place)
        days(place, 8)
    assert retired(place)["b"] == "deleted"
    done = repair(place, adopt=True)
    assert [finding.message for finding in done.findings if finding.key.endswith(files[3].path)] == [
        "is not listed: attached files of its records are being deleted; capture the records again"
    ]
    assert [file.id for file in place.state().files[3:]] == [files[4].id]
    assert told(place.state())[6] == [digest("e")]
    assert whole_but(place, files[3].path) == []


def whole_but(place: Place, path: str) -> list[str]:
    """What is wrong with a stream and its folder, but for the object at ``path``."""
    return [str(found) for found in verified(place).findings if found.key != PREFIX + path]


def body_of(place: Place, path: str) -> bytes:
    stored = place.storage.get(PREFIX + path)
    assert stored is not None
    return stored.body


def cuts(body: bytes) -> list[bytes]:
    """The whole members from the beginning on, but for all of them."""
    found, at = [], 0
    while at < len(body):
        inflater = __import__("zlib").decompressobj(31)
        inflater.decompress(body[at:])
        at = len(body) - len(inflater.unused_data)
        found.append(body[:at])
    return found[:-1]


@pytest.mark.parametrize("first", [False, True], ids=["behind", "before"])
def test_of_copies_the_one_with_the_most_rows_stays(place: Place, first: bool) -> None:
    """A copy that was cut behind the messages has the same text, and no rows."""
    before = begun(place, [["a"], ["b"]])
    (file,) = before.files
    body = body_of(place, file.path)
    folder, _, name = file.path.rpartition("/")
    for number, part in enumerate(cuts(body)):
        if gzip.decompress(part).count(b"RECORD"):
            place.storage.put(f"{PREFIX}{folder}/{'a' if first else 'z'}{number}-{name}", part)
    done = repair(place, discard=True)
    assert {finding.kind for finding in done.findings} >= {"duplicate"}
    (kept,) = place.state().files
    assert (kept.path, kept.id) == (file.path, file.id)
    check_rows(place, file.attached)


def check_rows(place: Place, rows: Any) -> None:
    (file,) = place.state().files
    assert file.attached == rows
    with place.storage.open(PREFIX + file.path) as body:
        assert scan(body, key="").attached == rows


def test_a_copy_that_is_cut_is_all_that_is_left(place: Place) -> None:
    before = begun(place, [["a"], ["b"], ["c"]], file_size=3)
    (file,) = before.files
    parts = cuts(body_of(place, file.path))
    for part in parts[1:]:
        place.storage.put(PREFIX + file.path, part)
        repair(place, discard=True)
        messages = gzip.decompress(part).count(b"RECORD")
        assert place.state().next_offset == messages
        # The rows are behind all messages.
        assert told(place.state()) == {}
    assert isinstance(place.state(), Manifest)

"""Erasing with a process that is killed, replies that are lost, storage that changes bytes, and a disk that is full."""

from __future__ import annotations

import errno
import shutil
import tempfile
from pathlib import Path

import pytest

from singerlake.errors import (
    StorageFullError,
    StorageUnavailableError,
    TooManyConflictsError,
)
from singerlake.format import layout
from singerlake.upkeep.erase import erase as erasing
from tests.storage.memory import Step
from tests.stores.stores import ON_THE_LAKE, Place
from tests.upkeep.erase.erasing import check, erase, erase_alone, holders
from tests.upkeep.gc.test_stores import collect, days, dump
from tests.upkeep.vacuum.test_stores import add, begun, messages, once, vacuum

pytestmark = pytest.mark.in_turn("kind")


def joined(kind: str) -> tuple[Place, list[bytes]]:
    """A stream of a vacuumed file of two, and two more; its messages."""
    place = Place(kind)
    begun(place, 2)
    vacuum(place)
    add(place, 2)
    return place, messages(place)


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_file_in_vain_that_cannot_be_deleted_stops_nothing(kind: str) -> None:
    place, text = joined(kind)

    def overtake() -> None:
        erase(place, 2)

        def refuse(step: Step) -> None:
            if step.operation == "delete" and step.key.endswith(layout.SUFFIX):
                raise StorageUnavailableError("no answer", key=step.key)

        place.storage.hook = refuse

    once(place, "upload", overtake, done=True)
    erase_alone(place, 1)
    place.storage.hook = lambda _: None
    check(place, text, 1, 2)
    for _ in range(4):
        days(place, 8)
        collect(place, orphans=True)
    assert holders(place, 1) == []


@pytest.mark.parametrize("kind", ON_THE_LAKE)
@pytest.mark.parametrize("harm", ["another byte", "cut", "gone"])
def test_a_file_that_storage_gives_back_otherwise_is_not_listed(kind: str, harm: str) -> None:
    place, text = joined(kind)
    before, objects = place.state(), dump(place)

    def change(step: Step) -> None:
        if (step.operation, step.done) == ("upload", True):
            place.storage.hook = lambda _: None
            stored = place.storage.get(step.key)
            assert stored is not None
            other = bytes((stored.body[-6] ^ 1,))
            body = stored.body[:-6] + other + stored.body[-5:] if harm == "another byte" else stored.body[:-40]
            if harm == "gone":
                place.storage.delete(step.key)
            else:
                place.storage.put(step.key, body)

    place.storage.hook = change
    with pytest.raises(StorageUnavailableError, match=r"other bytes than were written.*stays as it is"):
        erase_alone(place, 1)
    assert (place.state(), dump(place)) == (before, objects)
    erase(place, 1)
    check(place, text, 1)


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_a_full_disk_is_told_with_what_to_do_and_nothing_is_changed(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, text = joined(kind)
    before, objects = place.state(), dump(place)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def full(*_: object) -> None:
        # As write(2) fails, which names no file.
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(shutil, "copyfileobj", full)
        with pytest.raises(StorageFullError, match=r"no space is left for files without .*set \$TMPDIR") as caught:
            erase_alone(place, 1)
    assert caught.value.context == {"folder": str(tmp_path)}
    assert list(tmp_path.iterdir()) == []
    assert (place.state(), dump(place)) == (before, objects)
    erase(place, 1)
    check(place, text, 1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_an_erasure_that_always_comes_second_gives_up(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place, text = joined(kind)
    monkeypatch.setattr(erasing, "_ROUNDS", 3)
    others = iter((8, 10, 11))
    busy = False

    def hook(step: Step) -> None:
        # Others erase from the same file whenever a new one of it is written.
        nonlocal busy
        if (step.operation, step.done) == ("upload", True) and not busy:
            busy = True
            erase(place, next(others))
            busy = False

    place.storage.hook = hook
    with pytest.raises(TooManyConflictsError, match="what was erased by then stays erased; run again"):
        erase_alone(place, 9)
    place.storage.hook = lambda _: None
    assert messages(place)[9] == text[9]
    erase(place, 9)
    assert messages(place)[9] != text[9]

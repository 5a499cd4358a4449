"""Locks as an outsider sees them, and breaking one without taking a live writer's."""

from __future__ import annotations

import msgspec
import pytest

from singerlake.format import layout
from singerlake.lock_file import Lock, LockSettings, parse_lock
from singerlake.upkeep.lock_files import break_lock, locks_of, read_lock
from tests.upkeep.shelf import Shelf

KEY = layout.version_lock_key("t", "s", "aaaaaaa")
SETTINGS = LockSettings(max_wait=1, stale_after=1000, refresh=10)


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


def lock(shelf: Shelf, writer: str, key: str = KEY) -> Lock:
    return Lock(shelf.storage, key, writer, SETTINGS, shelf.clock, shelf.ids)


def test_every_lock_of_a_stream_is_seen(shelf: Shelf) -> None:
    both = (layout.stream_lock_key("t", "s"), KEY)
    for key in both:
        lock(shelf, "ada", key).acquire()
    lock(shelf, "ada", layout.version_lock_key("t", "other", "aaaaaaa")).acquire()
    assert tuple(held.key for held in locks_of(shelf.storage, "t", "s")) == both


def test_a_broken_lock_can_be_taken_at_once(shelf: Shelf) -> None:
    lock(shelf, "dead").acquire()
    held = read_lock(shelf.storage, KEY)
    assert held is not None
    assert held.body is not None
    assert (held.body.writer_id, held.free) == ("dead", False)
    assert break_lock(shelf.storage, held, clock=shelf.clock, ids=shelf.ids)
    after = read_lock(shelf.storage, KEY)
    assert after is not None
    assert after.free
    lock(shelf, "next").acquire()


def test_a_lock_that_its_holder_refreshed_meanwhile_is_left_alone(shelf: Shelf) -> None:
    live = lock(shelf, "live")
    live.acquire()
    seen = read_lock(shelf.storage, KEY)
    assert seen is not None
    live.refresh()
    assert not break_lock(shelf.storage, seen, clock=shelf.clock, ids=shelf.ids)
    now = read_lock(shelf.storage, KEY)
    assert now is not None
    assert not now.free


def test_the_holder_of_a_broken_lock_notices_and_goes_on(shelf: Shelf) -> None:
    live = lock(shelf, "live")
    live.acquire()
    seen = read_lock(shelf.storage, KEY)
    assert seen is not None
    break_lock(shelf.storage, seen, clock=shelf.clock, ids=shelf.ids)
    assert not live.refresh()
    live.release()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff"])
def test_a_lock_that_cannot_be_read_can_be_broken(shelf: Shelf, body: bytes) -> None:
    shelf.storage.put(KEY, body)
    held = read_lock(shelf.storage, KEY)
    assert held is not None
    assert (held.body, held.free) == (None, False)
    assert break_lock(shelf.storage, held, clock=shelf.clock, ids=shelf.ids)
    found = shelf.storage.get(KEY)
    assert found is not None
    assert parse_lock(found.body, key=KEY).released is not None
    lock(shelf, "next").acquire()


def test_a_broken_lock_keeps_its_holders_name(shelf: Shelf) -> None:
    lock(shelf, "dead").acquire()
    held = read_lock(shelf.storage, KEY)
    assert held is not None
    break_lock(shelf.storage, held, clock=shelf.clock, ids=shelf.ids)
    found = shelf.storage.get(KEY)
    assert found is not None
    body = msgspec.json.decode(found.body)
    assert body["writer-id"] == "dead"
    assert set(body) == {"writer-id", "acquired", "refreshed", "nonce", "released"}

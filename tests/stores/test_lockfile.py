"""What only the store over one object has: a manifest that cannot be believed, and storage without conditions."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from singerlake.errors import CorruptObjectError, UnsupportedFormatError
from singerlake.format import layout
from singerlake.storage.port import Entry
from tests.format.state.test_fold import add, new_file
from tests.stores.stores import Place
from tests.stores.test_any_writer import upload, writer

KEY = layout.manifest_key("t", "s")
BODIES: dict[str, tuple[bytes, type[Exception]]] = {
    "cut": (b'{"format":1,"tap":"t"', CorruptObjectError),
    "empty": (b"", CorruptObjectError),
    "another kind": (b'{"format":1,"streams":[]}', CorruptObjectError),
    "no format": (b'{"versions":{},"files":[]}', CorruptObjectError),
    "newer": (b'{"format":6}', UnsupportedFormatError),
}


@pytest.mark.parametrize("store", ["lockfile", "log"])
@pytest.mark.parametrize("kind", BODIES)
def test_a_state_that_cannot_be_believed_stops_everything_and_stays_as_it_is(kind: str, store: str) -> None:
    place = Place(store)
    body, error = BODIES[kind]
    place.storage.put(KEY, body)
    for act in (place.store().load, place.born):
        with pytest.raises(error, match=r"raw/t/s/manifest\.json"):
            act()
    stored = place.storage.get(KEY)
    assert stored is not None
    assert stored.body == body


def test_without_conditions_it_says_that_it_is_best_effort(caplog: pytest.LogCaptureFixture) -> None:
    place = Place("lockfile", ignore_conditions=True)
    base = place.born()
    assert place.store().exclusive
    assert "best effort" in caplog.text
    place.committed(base, add(new_file("a")), add(new_file("b")))
    assert place.listed() == ["a", "b"]


def test_far_locks_are_given_back_while_the_file_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, given_back, looked_for = Place("lockfile"), threading.Event(), list[str]()
    head, delete = place.storage.head, place.storage.delete

    def wait(key: str) -> Entry | None:
        if key.endswith(".singer.gz"):
            assert given_back.wait(60)
            looked_for.append(key)
        return head(key)

    def give_back(key: str, *, if_match: str | None = None) -> bool:
        gone = delete(key, if_match=if_match)
        given_back.set()
        return gone

    monkeypatch.setattr(place.storage, "head", wait)
    monkeypatch.setattr(place.storage, "delete", give_back)
    own, one = writer(place), upload(place, tmp_path)
    with ThreadPoolExecutor(2) as pool:
        own.sending = pool
        own.submit([one])
    assert looked_for == ["raw/t/s/" + one.file.path]

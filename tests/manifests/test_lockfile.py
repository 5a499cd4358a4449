"""What only the store over one object has: a manifest that cannot be believed, and storage without conditions."""

from __future__ import annotations

import pytest

from singerlake.errors import CorruptObjectError, UnsupportedFormatError
from singerlake.format import layout
from tests.format.state.test_fold import add, new_file
from tests.manifests.stores import Place

KEY = layout.manifest_key("t", "s")
BODIES: dict[str, tuple[bytes, type[Exception]]] = {
    "cut": (b'{"format":1,"tap":"t"', CorruptObjectError),
    "empty": (b"", CorruptObjectError),
    "another kind": (b'{"format":1,"streams":[]}', CorruptObjectError),
    "no format": (b'{"versions":{},"files":[]}', CorruptObjectError),
    "newer": (b'{"format":3}', UnsupportedFormatError),
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

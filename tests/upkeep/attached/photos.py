"""Streams with attached files at every manifest store: each record holds its own offset as ``n``, and photos whose
bytes are their names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from singerlake.format import layout
from singerlake.format.state.attached_objects import objects_in
from singerlake.format.state.features import features_of
from singerlake.format.state.model import Manifest
from singerlake.upkeep.verify import Verified, verify_stream
from tests.attached.lakes import attach, sha256
from tests.lakes import record_line
from tests.stores.stores import Place
from tests.upkeep.vacuum.test_stores import PREFIX

Photos = Sequence[str | None]
"""Of one record; None for one that could not be read."""
THREE: Sequence[Photos] = (["a"], ["b"], [], ["a", "c"], ["d", None], [])
"""Six records, two a file: ``a`` is shared by the first and the second file."""


def add(place: Place, photos: Sequence[Photos], *, file_size: int = 2) -> Manifest:
    """A record for each of ``photos``, behind what is there."""
    bodies = [[None if name is None else name.encode() for name in each] for each in photos]
    first = place.state().next_offset
    attach(place.lake, "t", "s", bodies, first_id=first, file_size=file_size, member_size=1, line=a_record)
    return place.state()


def a_record(stream: str, number: int) -> bytes:
    return record_line(stream, {"n": number})


def begun(place: Place, photos: Sequence[Photos] = THREE, *, file_size: int = 2) -> Manifest:
    """A new stream with these."""
    place.lake.lake_id(place.kind)
    place.born()
    return add(place, photos, file_size=file_size)


def digest(name: str) -> str:
    return sha256(name.encode())


def key(name: str, copy: int = 1) -> str:
    return PREFIX + layout.attached_path(digest(name), copy)


def told(manifest: Manifest) -> dict[int, list[str | None]]:
    """The checksums in the rows of each offset."""
    found: dict[int, list[str | None]] = {}
    for file in manifest.files:
        for row in file.attached:
            found.setdefault(file.offset + row.message, []).append(row.sha256)
    return found


def expected(photos: Sequence[Photos], *gone: int) -> dict[int, list[str | None]]:
    """The same, of such records but those that are ``gone``."""
    return {
        offset: [None if name is None else digest(name) for name in each]
        for offset, each in enumerate(photos)
        if each and offset not in gone
    }


def stored(place: Place) -> list[str]:
    """The photos that are on storage, whatever lists them; those of a second copy with a ``'`` behind."""
    found = []
    for entry in place.storage.list(f"{PREFIX}{layout.ATTACHED}/"):
        held = place.storage.get(entry.key)
        assert held is not None
        name = held.body.decode()
        again = entry.key.rpartition("/")[2].count(".")
        assert layout.attached_name_in(entry.key[len(PREFIX) :]) is not None
        found.append(name + "'" * again)
    return sorted(found)


def retired(place: Place) -> dict[str, str]:
    """The retired objects by the photo that they hold, or held, with how far their collection is."""
    names = {digest(name): name for name in "abcdefgh"}
    return {
        names[gone.id[:64]] + gone.id[64:]: "deleted" if gone.deleted else "shown" if gone.shown else "retired"
        for gone in place.state().retired
        if layout.attached_name_in(gone.path) is not None
    }


def verified(place: Place, **options: Any) -> Verified:
    return verify_stream(place.storage, "t", "s", place.state, **options)


def check(place: Place, photos: Sequence[Photos], *gone: int) -> None:
    """Each record that is not ``gone`` has its photos, whose bytes are there; and the stream is sound."""
    state = place.state()
    assert told(state) == {at: each for at, each in expected(photos, *gone).items() if at >= state.floor}
    assert "attached" in features_of(state)
    assert whole(place) == []
    names = set(objects_in(state.files))
    assert not names & {file.id for file in state.retired}


def whole(place: Place) -> list[str]:
    """What is wrong with a stream; what a run made in vain may lie there."""
    return [str(found) for found in verified(place).findings if found.kind != "unlisted"]


def rows(state: Manifest) -> Mapping[str, int]:
    """How many rows each listed file has."""
    return {file.id: len(file.attached) for file in state.files}

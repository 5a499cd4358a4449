"""Streams from which records are erased, for tests of that. A record holds its own offset as ``n``."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import pytest

from singerlake.conditions import Condition, parse_condition
from singerlake.format import layout
from singerlake.format.extra_fields import Provenance
from singerlake.format.lines.holes import HOLE
from singerlake.format.state.features import features_of
from singerlake.format.state.selection import select
from singerlake.lake import Lake
from singerlake.upkeep.erase.erase import Erased, erase_messages
from singerlake.upkeep.verify import verify_stream
from singerlake.work.engine import Threads
from tests.stores.stores import Place, make_place
from tests.upkeep.vacuum.test_stores import PREFIX, messages

WHO = "ada@here"


def place_of(kind: str, request: pytest.FixtureRequest) -> Place:
    """A place of that kind whose lake has an id, as lakes have that a target made."""
    place = make_place(kind, request)
    place.lake.lake_id(kind)
    return place


def where(*numbers: int) -> Condition:
    """The records at these offsets."""
    return parse_condition(f"n in ({', '.join(map(str, numbers))})", lambda name: name)


def erase(place: Place, *numbers: int, dry_run: bool = False, who: str = WHO, **options: Any) -> Erased:
    return erase_messages(place.context(), where(*numbers), who=who, dry_run=dry_run, **options)


def with_holes(lines: Sequence[bytes], *gone: int) -> list[bytes]:
    """The messages of a stream with holes at these offsets."""
    return [HOLE[:-1] if offset in gone else line for offset, line in enumerate(lines)]


def read(lake: Lake, offset: int = 0) -> list[tuple[int, bytes]]:
    """What a reader of the lake sees from an offset on: messages with their offsets."""
    stream = lake.stream("t", "s")
    found: list[tuple[int, bytes]] = []
    for part in select(stream.snapshot(), offset=offset):
        for block in stream.read(part):
            found += zip(block.offsets, block.data.splitlines(), strict=True)
    return found


def check(place: Place, text: Sequence[bytes], *gone: int) -> None:
    """Every message is where it was in ``text``, but those that are gone: as any program reads the files, and as the
    lake's own reader does; and what the manifest says of the listed files is so."""
    assert messages(place) == with_holes(text, *gone)
    left = [(offset, line) for offset, line in enumerate(text) if offset not in gone]
    assert read(place.opened()) == left
    found = verify_stream(place.storage, "t", "s", place.state).findings
    # What was made in vain may lie there, and is nothing to look after.
    assert [finding for finding in found if finding.kind != "unlisted"] == []
    state = place.state()
    assert sum(file.erased for file in state.files) == len(gone)
    for file in state.files:
        assert file.erased == sum(file.offset <= offset < file.end for offset in gone)
        check_rows(place, file.id)
    assert ("erased" in features_of(state)) == bool(gone)


def check_rows(place: Place, id: str) -> None:
    """What a file says of each erasure adds up to the holes in the messages of each original."""
    said = provenance(place, id)
    if said is None:
        return
    file = place.state().by_id[id]
    lines = messages(place)[file.offset : file.end]
    holes: Counter[str] = Counter()
    for source, count in said.replaces:
        holes[source] += sum(line == HOLE[:-1] for line in lines[:count])
        lines = lines[count:]
    told: Counter[str] = Counter()
    for source, count, _, _ in said.erased:
        told[source] += count
    assert +holes == told


def provenance(place: Place, id: str) -> Provenance | None:
    """What a listed file says it was made of."""
    return place.lake.stream("t", "s").provenance(place.state().by_id[id])


def who_of(place: Place) -> list[tuple[str, int, str]]:
    """The rows of all listed files, ``(original, records, by whom)``."""
    said = [provenance(place, file.id) for file in place.state().files]
    return [(source, count, who) for each in said if each for source, count, _, who in each.erased]


def holders(place: Place, *numbers: int) -> list[str]:
    """The paths of all data files, whatever lists them, that hold a record of these."""
    found = []
    for entry in place.storage.list(PREFIX):
        if entry.key.endswith(".singer.gz") and holds(place, entry.key, numbers):
            found.append(entry.key.removeprefix(PREFIX))
    return found


def holds(place: Place, key: str, numbers: Collection[int]) -> bool:
    stored = place.storage.get(key)
    assert stored is not None
    text = gzip.decompress(stored.body)
    return any(b'"n": %d}' % number in text for number in numbers)


def erase_alone(place: Place, *numbers: int) -> Erased:
    """With one thread, whose steps can be counted."""
    return erase(place, *numbers, engine=Threads(place.storage, 1))


def data_files(place: Place) -> set[str]:
    paths = {entry.key.removeprefix(PREFIX) for entry in place.storage.list(PREFIX)}
    return {path for path in paths if path.endswith(layout.SUFFIX)}

"""Every cell of random tables: the bytes that are told are of its record, and plain Python makes the cell of them.

The streams have renames, casts, nested properties, values that do not fit and histories, and they are joined, moved and
erased from behind their tables' backs.
"""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from singerlake.conditions import Condition
from singerlake.conditions import Test as Tested
from singerlake.errors import CheckFailedError, SettingError
from singerlake.format.state.selection import slices
from singerlake.lake import Lake
from singerlake.tables.why import line
from singerlake.tables.why import rows as rows_of_files
from singerlake.tables.why.why import WhyResult
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.defaults import TARGET_BYTES
from singerlake.upkeep.migrate import migrate_stream
from singerlake.upkeep.vacuum.vacuum import vacuum_stream
from tests.tables.cases import Case, case
from tests.tables.recompute import _Maker
from tests.tables.tables import (
    OFFSET,
    STREAM,
    TABLE,
    TAP,
    _plain,
    capture,
    declaration_of,
    memory_lake,
    messages_of,
    runner_of,
    small_sizes,
)
from tests.tables.typed import columns_of, written

QUICK, MORE, ALL, GROUP = 13, 73, 213, 20


def _context(lake: Lake) -> StreamContext:
    stream = lake.stream(TAP, STREAM)
    return StreamContext(lake.storage, TAP, STREAM, lake.clock, lake.ids, stream.store(stream.kind()))


def _made(made: Case) -> tuple[Lake, Sequence[Mapping[str, Any]]] | None:
    """A lake with the table, and the messages that it is of; None where there is none."""
    lake, runs = memory_lake(), 0
    chance = random.Random(made.seed)
    for number, batch in enumerate(made.batches, 1):
        capture(lake, batch, made.sizes)
        if batch.run:
            try:
                runner_of(lake).run(declaration_of(made.declared))
                runs = number
            except (CheckFailedError, SettingError):
                break
        if chance.random() < 0.5:
            vacuum_stream(_context(lake), target_bytes=TARGET_BYTES, threads=1)
    if not runs:
        return None
    messages = messages_of(made.batches[:runs])
    if chance.random() < 0.5 and runs == len(made.batches):
        messages = _erased(lake, made, messages, chance)
    if chance.random() < 0.5:
        vacuum_stream(_context(lake), target_bytes=TARGET_BYTES, threads=1)
    if chance.random() < 0.3:
        migrate_stream(_context(lake), lake.stream(TAP, STREAM).store("log"))
    return lake, messages


def _erased(
    lake: Lake, made: Case, messages: Sequence[Mapping[str, Any]], chance: random.Random
) -> Sequence[Mapping[str, Any]]:
    """Erase the records with some text, and run again."""
    texts = {
        (name, value)
        for message in messages
        for name, value in message.get("record", {}).items()
        if isinstance(value, str)
    }
    if not texts:
        return messages
    name, text = chance.choice(sorted(texts))
    condition = Condition((Tested("=", ((text,),), False, (name,)),))
    lake.stream(TAP, STREAM).erase(condition, undeclared=True)
    runner_of(lake).run(declaration_of(made.declared))
    stream = lake.stream(TAP, STREAM)
    left = {offset for part in slices(stream.snapshot()) for block in stream.read(part) for offset in block.offsets}
    offsets = iter(range(len(messages)))
    return [
        message if message["type"] == "SCHEMA" or next(offsets) in left else {"type": "ERASED"} for message in messages
    ]


def check_table(made: Case) -> int:
    """Ask of each row of the table of a case; how many cells these have. Raises ``AssertionError``."""
    with small_sizes(made.sizes), pytest.MonkeyPatch.context() as patch:
        found = _made(made)
        if found is None:
            return 0
        by_ranges = made.seed % 2 == 1
        if by_ranges:
            patch.setattr(line, "WHOLE", 0)
            patch.setattr(rows_of_files, "_WHOLE", 0)
        lake, messages = found
        schemas = [message["schema"] for message in messages if message["type"] == "SCHEMA"]
        plain = replace(made.declared, checks=(), null_keys="drop", deletions="hard")
        key = [message["key_properties"] for message in messages if message["type"] == "SCHEMA"][-1]
        maker = _Maker(plain, columns_of(schemas), made.declared.key or tuple(key))
        records = [message for message in messages if message["type"] != "SCHEMA"]
        for message in records:
            maker.take(message)
        rows = {row[OFFSET]: row for row in maker.rows}
        table = lake.table(TABLE)
        cells = 0
        for offset in table.to_arrow(columns=[OFFSET]).read_all().column(OFFSET).to_pylist():
            told = table.why(offset=offset)
            assert told.record is not None
            assert told.record.checked is not by_ranges
            cells += _check_row(lake, told, records[offset], rows[offset])
        return cells


def _check_row(lake: Lake, found: WhyResult, message: Mapping[str, Any], row: Mapping[Any, Any]) -> int:
    assert found.trouble is None
    assert found.record is not None
    stored = lake.storage.get(found.record.file)
    assert stored is not None
    text = gzip.decompress(stored.body[found.record.start : found.record.end])
    stored_line = text.split(b"\n")[found.record.line - 1]
    assert stored_line == written(message).encode()
    (original,) = (one for one in lake.storage.list("raw/") if one.key.endswith(f"-{found.record.original}.singer.gz"))
    as_written = lake.storage.get(original.key)
    assert as_written is not None
    assert stored_line in gzip.decompress(as_written.body).split(b"\n")
    assert found.record.time_extracted == message.get("time_extracted")
    assert found.record.run == "a-test-run"
    assert found.record.schema in lake.stream(TAP, STREAM).snapshot().schemas
    for cell in found.cells:
        if cell.pointer is None:
            continue
        *_, name = cell.pointer.replace("~1", "/").replace("~0", "~").split("/", 2)
        told = message["record"] if cell.pointer.startswith("/record/") else message
        if cell.bytes is None:
            assert name not in told
            continue
        captured = stored_line[cell.bytes[0] : cell.bytes[1]]
        assert captured.decode() == cell.captured == written(told[name])
        if told is message:
            continue
        value = json.loads(cell.captured)
        assert _plain(cell.value) == _plain(row[cell.column]), cell
        if cell.value is None:
            assert value is None or "what does not fit its type stands in _rescued_data" in cell.made
        elif not cell.made and isinstance(cell.value, bool | int):
            assert cell.value == value
    return len(found.cells)


def test_bytes_parse_to_the_cell() -> None:
    assert sum(check_table(case(seed)) for seed in range(QUICK)) > 300


@pytest.mark.thorough
@pytest.mark.parametrize(
    "first",
    [
        *range(QUICK, MORE, GROUP),
        *(pytest.param(first, marks=pytest.mark.soak) for first in range(MORE, ALL, GROUP)),
    ],
)
def test_bytes_of_many_more_tables_parse_to_the_cell(first: int) -> None:
    assert sum(check_table(case(seed)) for seed in range(first, first + GROUP)) > 200

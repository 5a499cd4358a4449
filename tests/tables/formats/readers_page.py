"""The table of readers in `table-formats.md`: its cells, its calls, and the hard values that both are held to."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from singerlake.tables.declaration.model import Format
from singerlake.tables.tasks.files import FORMATS
from tests.tables.formats import samples

TEXT = (Path(__file__).parents[3] / "docs/reference/table-formats.md").read_text()
_HEADER, _, *_LINES = TEXT.partition("\n## Readers\n")[2].partition("|")[2].partition("\n\n")[0].splitlines()
_FORMATS = [name.strip() for name in _HEADER.split("|")[2:-1]]
_BLOCKS = dict(re.findall(r'```python title="([^"]+)"\n(.*?)```', TEXT, re.DOTALL))
_GUESSED = [
    "00501",
    "10101010",
    "NA",
    "None",
    "nan",
    "true",
    "2026-01-02",
    "2026-01-02T03:04:05Z",
    "12:30:00",
    "-0",
    "1e5",
]
_GUESSED += ["[1]", '{"a":1}', "#", "5f0c1d3e-7c1a-4a6b-9d3e-2f1b7c8d9e0f", "\ufeffx", "\r\nx", "'x'"]


@dataclass(frozen=True)
class Cell:
    """What a reader gives back of one format. ``lost``: columns whose values differ; ``stops``: it reads no double that
    is not finite."""

    reader: str
    version: tuple[int, ...]
    format: Format
    lost: frozenset[str]
    stops: bool

    @property
    def code(self) -> str:
        """The calls that the page gives; the last value is in ``table`` or ``rows``."""
        if self.format in (Format.CSV, Format.JSONL):
            through = {Format.CSV: "pyarrow", Format.JSONL: "DuckDB"}[self.format]
            before = _BLOCKS[f"{through}, {self.format.value}"] if self.reader == "pandas" else ""
            return before + _BLOCKS[f"{self.reader}, {self.format.value}"]
        (call,) = [line for line in _BLOCKS[self.format.value].splitlines() if line.startswith(self.reader.lower())]
        return f"rows = {call}"


def _cells() -> list[Cell]:
    found = []
    for line in _LINES:
        reader, version, *said = (cell.strip() for cell in line.strip("|").split("|"))
        for format, cell in zip(_FORMATS, said, strict=True):
            if cell != "–":
                assert re.fullmatch(r"all(, but stops at NaN| but (`\w+`(, also within )?)+)?", cell), cell
                lost = frozenset(re.findall(r"`(\w+)`", cell))
                numbers = tuple(map(int, version.split(".")))
                found.append(Cell(reader, numbers, Format(format), lost, cell.endswith("NaN")))
    return found


CELLS = _cells()


def hard_table() -> pa.Table:
    """One column of each type, with what is hard about it."""
    simple = samples.columns()
    names = {"text": "t", "integer": "i", "double": "d", "decimal": "n", "boolean": "b", "date": "day"}
    names |= {"timestamp": "utc", "local_timestamp": "local"}
    arrays = {name: simple[short] for name, short in names.items()}
    arrays["text"] = pa.concat_arrays([pa.array(_GUESSED), arrays["text"]])
    # A reader that looks at the first rows alone must not be right by chance.
    arrays["double"] = pa.concat_arrays([pa.array([1.5] * 9), arrays["double"]])
    arrays["array"] = pa.array([[1, None, 2**63 - 1], [], None, [7]])
    shape = pa.struct({"a": pa.int64(), "b": pa.string(), "c": pa.decimal128(10, 2)})
    whole = {"a": 2**63 - 1, "b": 'say "x"\r\n,\\', "c": Decimal("1.50")}
    arrays["object"] = pa.array([whole, dict.fromkeys(whole), None], shape)
    most = max(map(len, arrays.values()))
    return pa.table(
        {name: pa.concat_arrays([each, pa.nulls(most - len(each), each.type)]) for name, each in arrays.items()}
    )


def check(cell: Cell, folder: Path, given: dict[str, Any]) -> None:
    """Run a cell's calls, with ``given`` as their names, and hold their values to what the cell says."""
    table = hard_table()
    path = folder / f"file.{cell.format.value}"
    FORMATS[cell.format].write(table, path)
    if cell.stops:
        try:
            _read(cell, path, given)
        except pa.ArrowInvalid:
            finite = pc.fill_null(pc.is_finite(table["double"]), True)
            table = table.set_column(2, "double", pc.if_else(finite, table["double"], None))
            FORMATS[cell.format].write(table, path)
        else:
            raise AssertionError("it reads NaN, too")
    found = _read(cell, path, given)
    assert list(found) == table.column_names
    assert {name for name in found if not _same(found[name], table[name].to_pylist())} == cell.lost


def _same(found: list[Any], wanted: list[Any]) -> bool:
    if isinstance(next(filter(None, wanted)), dict | list):
        # JSON text in csv.
        found = [json.loads(value, parse_float=Decimal) if isinstance(value, str) else value for value in found]
    # repr tells -0.0 from 0.0, and a decimal from a double.
    return repr(list(map(_in_utc, found))) == repr(list(map(_in_utc, wanted)))


def _in_utc(value: Any) -> Any:
    """Moments in the same kind of zone."""
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value


def _read(cell: Cell, path: Path, given: dict[str, Any]) -> dict[str, list[Any]]:
    """The values of each column."""
    names: dict[str, Any] = {"path": str(path), **given}
    exec(cell.code, names)
    rows = names.get("table", names["rows"])
    if cell.reader == "pandas":
        # Not by way of pandas' own conversion to Arrow, which would take back what it did.
        return {name: [_plain(each, given["pandas"]) for each in rows[name]] for name in rows.columns}
    if cell.reader == "fastavro":
        rows = pa.Table.from_pylist(list(rows))
    for method in ("to_arrow_table", "to_arrow", "toArrow"):
        if hasattr(rows, method):
            rows = getattr(rows, method)()
    return {name: rows[name].to_pylist() for name in rows.column_names}


def _plain(value: Any, pandas: Any) -> Any:
    if value is pandas.NA or value is pandas.NaT:
        return None
    return value.to_pydatetime() if isinstance(value, pandas.Timestamp) else value

"""The partitions and the order of a table as the Iceberg specification calls them, as far as both mean the same rows
(section 14.8 of the format). Pure."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from singerlake.arrow.schema.columns import Boolean, Column, Date, Double, Integer, JsonText, Text, Timestamp
from singerlake.tables.declaration.model import NULL_PARTITION, Partition
from singerlake.tables.declaration.stored import declaration_of
from singerlake.tables.state.ids import Numbered
from singerlake.tables.state.keys import partition_folder
from singerlake.tables.state.model import TableFile, TableState
from singerlake.tables.state.types import PARTITION

UNPARTITIONED: Mapping[str, Any] = {"spec-id": 0, "fields": []}
UNSORTED: Mapping[str, Any] = {"order-id": 0, "fields": []}
LAST_PARTITION = 999
"""The specification's last id of a partition field where there is none."""
_EPOCH = datetime.date(1970, 1, 1)
_IDENTITY = "identity"


@dataclass(frozen=True, slots=True)
class _Field:
    """The partition at ``place`` of those that are declared, of the table's ``column``."""

    place: int
    declared: Partition
    column: Numbered

    @property
    def transform(self) -> str:
        """The transform that is said. Of a date it is the day in place of the date, and the year in place of the month:
        DuckDB 1.4.4 leaves out files by the other two that have rows."""
        unit = self.declared.unit
        if isinstance(self.column.type, Date):
            return {None: "day", "month": "year"}.get(unit, unit or "")
        return unit or _IDENTITY

    @property
    def folder(self) -> str:
        return self.declared.name(self.column.name)

    def value(self, text: str) -> Any:
        """What the specification calls the value ``text``. Raises ``ValueError``, also where rows with it have several
        values, and before 1970: DuckDB 1.4.4 rounds to units towards that year, and does not find the rows."""
        if text == NULL_PARTITION:
            if isinstance(self.column.type, Text | JsonText):
                raise ValueError("null and empty texts")
            return None
        if self.declared.unit and text < "1970":
            raise ValueError("before 1970")
        return _VALUES[self.transform](self.column.type, text)


def _identity(column: Column, text: str) -> Any:
    if isinstance(column, Boolean):
        return {"true": True, "false": False}[text]
    if isinstance(column, Integer):
        return int(text)
    return text


def _hour(column: Column, text: str) -> int:
    day, _, hour = text.partition("T")
    return (datetime.date.fromisoformat(day) - _EPOCH).days * 24 + int(hour)


_VALUES: dict[str, Callable[[Column, str], Any]] = {
    _IDENTITY: _identity,
    "year": lambda _, text: int(text[:4]) - _EPOCH.year,
    "month": lambda _, text: (int(text[:4]) - _EPOCH.year) * 12 + int(text[5:]) - 1,
    "day": lambda _, text: datetime.date.fromisoformat(text),
    "hour": _hour,
}


def _is_alike(transform: str, column: Column) -> bool:
    """Whether the values of partitions are those of the specification's ``transform``, or tell them. A zoned time is
    UTC in both."""
    if transform == _IDENTITY:
        return isinstance(column, Boolean | Integer | Text | JsonText | Date)
    return isinstance(column, Timestamp) or (isinstance(column, Date) and transform != "hour")


@dataclass(frozen=True, slots=True)
class Partitions:
    """A ``spec`` of the specification, and the tuples of files in it."""

    spec: Mapping[str, Any]
    _fields: tuple[_Field, ...]

    def of(self, file: TableFile) -> tuple[Mapping[str, Any], tuple[Any, ...]]:
        """The spec that a file is in, and its tuple."""
        try:
            return self.spec, tuple(self._value(file, each) for each in self._fields)
        except (ValueError, KeyError):
            return UNPARTITIONED, ()

    def _value(self, file: TableFile, field: _Field) -> Any:
        assert file.path is not None
        text = file.partition[field.place]
        # A property that differs by case from another has a column that the declaration does not name: the path does.
        if file.path.split("/")[1 + field.place] != partition_folder(field.folder, text):
            raise ValueError("of another column")
        return field.value(text)


def partitions_of(state: TableState, columns: Sequence[Numbered], before: Mapping[str, Any] | None) -> Partitions:
    """The partitions of a table with these columns, whose metadata were ``before``."""
    declared = declaration_of(state)
    by_name = {each.name: each for each in columns}
    known = {} if before is None else {_meaning(each): each["field-id"] for each in _fields(before, "partition-specs")}
    made: dict[tuple[int, str], tuple[_Field, Mapping[str, Any]]] = {}
    for place, each in enumerate(declared.partition_by):
        column = by_name.get(declared.rule(each.column).rename or each.column)
        if column is None or not _is_alike(each.unit or _IDENTITY, column.type):
            continue
        field = _Field(place, each, column)
        said = {"source-id": column.id, "transform": field.transform}
        id = known.setdefault(_meaning(said), max([LAST_PARTITION, *known.values()]) + 1)
        # A partition may not have the name of a column that is another thing.
        name = column.name if field.transform == _IDENTITY else f"{column.name}_{field.transform}"
        while field.transform != _IDENTITY and name in by_name:
            name += "_"
        made.setdefault(_meaning(said), (field, {**said, "field-id": id, "name": name}))
    fields = tuple(field for field, _ in made.values())
    spec = _known(before, "partition-specs", "spec-id", [said for _, said in made.values()])
    return Partitions(spec, fields)


def order_of(state: TableState, columns: Sequence[Numbered], before: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """The order of the rows in each file."""
    by_name = {each.name: each for each in columns}
    fields = []
    for name in (each for each in state.order if not each.startswith(PARTITION)):
        # Zeros of two signs are equal here, and one is less than the other there.
        if isinstance(by_name[name].type, Double):
            break
        said = {"transform": _IDENTITY, "source-id": by_name[name].id}
        fields.append({**said, "direction": "asc", "null-order": "nulls-last"})
    return _known(before, "sort-orders", "order-id", fields)


def _known(before: Mapping[str, Any] | None, what: str, id: str, fields: list[Any]) -> Mapping[str, Any]:
    """The spec or order with these fields among those of ``before``, or a new one. Without fields it has the id 0."""
    there = [] if before is None else before[what]
    same = next((each for each in there if each["fields"] == fields), None)
    fresh = max((each[id] for each in there), default=0) + 1 if fields else 0
    return same if same is not None else {id: fresh, "fields": fields}


def _meaning(field: Mapping[str, Any]) -> tuple[int, str]:
    return field["source-id"], field["transform"]


def _fields(body: Mapping[str, Any], what: str) -> Iterator[Mapping[str, Any]]:
    for each in body[what]:
        yield from each["fields"]


def with_sources(said: Sequence[Mapping[str, Any]], columns: Sequence[Numbered]) -> list[Mapping[str, Any]]:
    """The specs or orders whose columns are all there."""
    ids = {each.id for each in columns}
    return [each for each in said if all(field["source-id"] in ids for field in each["fields"])]

"""What differs between two captures of one source, stream by stream."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from msgspec import structs

from singerlake.errors import SettingError, SingerlakeError, UnknownNameError, expected_errors
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.format.state.selection import schema_in_force
from singerlake.glance import at_a_glance
from singerlake.tables.compare.as_of import Maker
from singerlake.tables.compare.counts import RowDifference, counted_differences
from singerlake.tables.declaration.model import NullKeys, TableDeclaration
from singerlake.tables.read import LakeTable
from singerlake.tables.rows.convert import NULL_KEY
from singerlake.upkeep.reports.schema_diff import SchemaDiff, compare
from singerlake.upkeep.result import Failure

EXAMPLES = 3
"""Rows of each kind, and of each column that differs, that a result names."""


@at_a_glance
@dataclass(frozen=True, slots=True)
class StreamComparison:
    """What differs between two captures of a stream: the ``schema``, None where none is, and the rows by ``key``.
    ``only_first`` and ``only_second`` count rows of keys that one of them has, ``changed`` those of both that differ,
    ``columns`` in how many of these each column does. ``without_key`` counts records of the two that were left out."""

    stream: str
    key: tuple[str, ...]
    rows: tuple[int, int]
    without_key: tuple[int, int]
    schema: SchemaDiff | None
    only_first: int
    only_second: int
    changed: int
    columns: Mapping[str, int]
    examples: tuple[RowDifference, ...]

    @property
    def same(self) -> bool:
        """Whether nothing differs."""
        rows = self.only_first or self.only_second or self.changed
        return not rows and self.schema is None and self.without_key[0] == self.without_key[1]


@at_a_glance
@dataclass(frozen=True, slots=True)
class CompareResult:
    """What differs between two taps: the streams that both have, and those of one of them alone. Those that could not
    be compared are in ``failed``."""

    lake: str
    first: str
    second: str
    streams: tuple[StreamComparison, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    failed: tuple[Failure, ...]

    @property
    def same(self) -> bool:
        """Whether all was compared and nothing differs."""
        missing = self.only_first or self.only_second or self.failed
        return not missing and all(each.same for each in self.streams)


def compare_taps(
    lake: str, maker: Maker, taps: tuple[str, str], streams: tuple[Sequence[str], Sequence[str]], key: Sequence[str]
) -> CompareResult:
    """Compare these streams of two taps. One that cannot be compared stops no other."""
    made: list[StreamComparison] = []
    failed: list[Failure] = []
    first, second = streams
    for stream in (name for name in first if name in second):
        try:
            with expected_errors(stream=stream):
                made.append(_compared(maker, taps, stream, key))
        except SingerlakeError as error:
            failed.append(Failure(taps[0], stream, error))
    return CompareResult(
        lake,
        *taps,
        streams=tuple(made),
        only_first=tuple(name for name in first if name not in second),
        only_second=tuple(name for name in second if name not in first),
        failed=tuple(failed),
    )


def _compared(maker: Maker, taps: tuple[str, str], stream: str, key: Sequence[str]) -> StreamComparison:
    manifests = [maker.runner.manifest(tap, stream) for tap in taps]
    schemas = [_schema_of(manifest) for manifest in manifests]
    key = key or next((each.key_properties for each in schemas if each.key_properties), ())
    if not key:
        raise SettingError("the stream has no key", hint="name its properties, as by --key", stream=stream)
    difference = compare(*schemas)
    before, after = (_latest(maker, manifest, manifests, key) for manifest in manifests)
    examples: list[RowDifference] = []
    seen = Counter[tuple[str, str]]()

    def told(row: RowDifference) -> None:
        kinds = [(row.what, name) for name in (row.after or () if row.what == "changed" else ("",))]
        if any(seen[kind] < EXAMPLES for kind in kinds):
            seen.update(kinds)
            examples.append(row)

    counts = counted_differences(before, after, told, most=EXAMPLES)
    return StreamComparison(
        stream=stream,
        key=tuple(key),
        rows=(before.rows, after.rows),
        without_key=(_without_key(before), _without_key(after)),
        schema=difference if any(asdict(difference).values()) else None,
        only_first=counts.deleted,
        only_second=counts.inserted,
        changed=counts.changed,
        columns=counts.columns,
        examples=tuple(examples),
    )


def _schema_of(manifest: Manifest) -> StreamSchema:
    schema = schema_in_force(manifest)
    if schema is None:
        raise UnknownNameError(
            "the stream has no version", hint="capture it first", tap=manifest.tap, stream=manifest.stream
        )
    return schema


def _latest(maker: Maker, manifest: Manifest, both: Sequence[Manifest], key: Sequence[str]) -> LakeTable:
    """The last row of each key, with the columns of all schemas of ``both`` streams."""
    schemas = {f"{each.tap} {name}": schema for each in both for name, schema in each.schemas.items()}
    declaration = TableDeclaration(
        name=manifest.stream, tap=manifest.tap, stream=manifest.stream, key=tuple(key), null_keys=NullKeys.DROP
    )
    return maker.made(declaration, structs.replace(manifest, schemas=schemas), manifest.next_offset, key)


def _without_key(table: LakeTable) -> int:
    return table.state.runs[-1].checks.get(NULL_KEY, 0)

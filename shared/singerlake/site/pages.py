"""Which pages a site has, their names, and the values that their templates get. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from singerlake.clock import parse_timestamp
from singerlake.site import chart, tables
from singerlake.site.changes import Change, changes_of, in_short
from singerlake.site.facts.facts import (
    LakeFacts,
    StreamFacts,
    TableFacts,
    TapFacts,
    VersionFacts,
    outcomes,
    tally_of,
    totals,
)
from singerlake.site.names import page_name
from singerlake.site.tables import columns_path, table_path
from singerlake.site.tree import pages_of, tree_of

ROWS = 300
"""Of a table on one page; what is more goes to further pages."""
VERSIONS = 20
"""Whose changes one page shows."""
CHANGES = 8
"""Of one version that are shown beside others'; all of them stand on its own page."""
TREE_BYTES = 100_000
"""Of a schema on one page, about; the limit of a page is 300 kB."""
_WHOLE_CHANGES = 300
"""Of one version that its own page shows."""
_RUNS = 10
_TABLES = 50
"""Of one stream that its page names; the list of tables has all."""
TABLES = "tables.html"
"""The list of them."""
_KINDS = 50
"""Of attached files that the page of a stream names."""
_TROUBLES = 50

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Page:
    """A file of the site: its path, and the template that makes it from values."""

    path: str
    template: str
    values: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Row:
    """A version as a table shows it; ``changes`` are the first of them, ``more`` counts the others."""

    facts: VersionFacts
    path: str
    short: str
    compatible: bool
    changes: tuple[Change, ...]
    more: int


class Site:
    """The pages of one lake."""

    def __init__(self, lake: LakeFacts) -> None:
        self.lake = lake
        self._streams = {(each.tap, each.stream): each for each in lake.streams}
        self._made_from: dict[tuple[str, str], list[TableFacts]] = defaultdict(list)
        for table in lake.tables:
            if table.standing is not None and table.standing.source is not None:
                self._made_from[table.standing.source.tap, table.standing.source.stream].append(table)

    def pages(self) -> Iterator[Page]:
        """All of them; no two have the same path."""
        yield from self._lake_pages()
        for tap in self.lake.taps:
            yield from self._tap_pages(tap)
            for stream in tap.streams:
                yield from self._stream_pages(tap, stream)
        if self.lake.tables or self.lake.tables_trouble:
            yield from self._table_list()
        for table in self.lake.tables:
            yield from self._table_pages(table)

    def search_index(self) -> bytes:
        """A script that names everything there is to find: it is loaded as one, since a page on a disk may not fetch
        data. Streams are ``[tap, name, page, [property, ...]]``, taps ``[name, page, what people say]``, tables
        ``[name, page, tap and stream, [column, ...]]``."""
        taps = [[tap.tap, tap_path(tap), f"{tap.notes.owner} {tap.notes.description}"] for tap in self.lake.taps]
        streams = [
            [number, stream.stream, stream_path(stream), _property_names(stream)]
            for number, tap in enumerate(self.lake.taps)
            for stream in tap.streams
        ]
        found = [
            [table.table, table_path(table), _source_text(table), [column.name for column in table.columns]]
            for table in self.lake.tables
        ]
        index = json.dumps({"taps": taps, "streams": streams, "tables": found})
        # In ASCII: no name can end the script or break its line.
        return b"const SINGERLAKE_INDEX = " + index.encode("ascii") + b";\n"

    def _lake_pages(self) -> Iterator[Page]:
        taps = [
            {
                "tap": tap,
                "path": tap_path(tap),
                "totals": totals(tap.streams),
                "outcomes": outcomes(self.lake, tap.streams),
            }
            for tap in self.lake.taps
        ]
        streams = self.lake.streams
        lake, stands = self.lake, [each.standing for each in self.lake.tables if each.standing]
        troubles = [
            *((tap.tap, None, tap_path(tap), tap.trouble) for tap in lake.taps if tap.trouble),
            *((each.tap, each.stream, stream_path(each), each.trouble) for each in streams if each.trouble),
            *([("Tables", None, TABLES, lake.tables_trouble)] if lake.tables_trouble else ()),
            *(("Tables", each.table, table_path(each), each.trouble) for each in lake.tables if each.trouble),
        ]
        values = {
            "totals": totals(streams),
            "outcomes": outcomes(self.lake, streams),
            "chart": chart.growth(tally_of(streams)),
            "troubles": troubles[:_TROUBLES],
            "untold": max(0, len(troubles) - _TROUBLES),
            "tables_path": TABLES,
            "rows": sum(each.rows for each in stands),
            "stored": sum(each.bytes for each in stands),
            "behind": sum(bool(each.behind) for each in stands),
        }
        yield from self._paged("index.html", "more", "lake.html", "taps", taps, values)

    def _tap_pages(self, tap: TapFacts) -> Iterator[Page]:
        rows = []
        for stream in tap.streams:
            runs = self.lake.runs(stream, 1)
            rows.append({"facts": stream, "path": stream_path(stream), "run": runs[0] if runs else None})
        values = {
            "tap": tap,
            "totals": totals(tap.streams),
            "outcomes": outcomes(self.lake, tap.streams),
            "chart": chart.growth(tally_of(tap.streams)),
        }
        path = tap_path(tap)
        yield from self._paged(path, path.removesuffix(".html"), "tap.html", "streams", rows, values)

    def _stream_pages(self, tap: TapFacts, stream: StreamFacts) -> Iterator[Page]:
        path = stream_path(stream)
        values = {"tap": tap, "tap_path": tap_path(tap), "facts": stream, "stream_path": path}
        rows = [_row(stream, facts) for facts in reversed(stream.versions)]
        shown = next((row for row in rows if row.facts is stream.current), None)
        parts = _tree(stream.current) if stream.current else [()]
        first, *older = _chunks(rows, VERSIONS)
        yield self._page(
            path,
            "stream.html",
            **values,
            rows=first,
            older=_history_path(stream, 2) if older else None,
            current=shown,
            tree=parts[0],
            tree_goes_on=len(parts) > 1,
            charts=[each for each in (chart.arrivals(stream.tally), chart.sizes(stream.tally)) if each],
            runs=self.lake.runs(stream, _RUNS),
            kinds=stream.attached.kinds[:_KINDS],
            tables=[(each.table, table_path(each)) for each in self._made_from[stream.tap, stream.stream][:_TABLES]],
        )
        for number, chunk in enumerate(older, 2):
            yield self._page(
                _history_path(stream, number),
                "history.html",
                **values,
                rows=chunk,
                number=number,
                newer=_history_path(stream, number - 1) if number > 2 else path,
                older=_history_path(stream, number + 1) if number < len(older) + 1 else None,
            )
        for row in rows:
            yield from self._schema_pages(values, row)

    def _table_list(self) -> Iterator[Page]:
        rows = [
            {"facts": each, "path": table_path(each), **(tables.in_short(each.standing) if each.standing else {})}
            for each in self.lake.tables
        ]
        yield from self._paged(TABLES, "more-tables", "tables.html", "tables", rows, {})

    def _table_pages(self, table: TableFacts) -> Iterator[Page]:
        path, stands = table_path(table), table.standing
        parts = pages_of(tables.column_tree(table), TREE_BYTES)
        paths = [path, *(columns_path(table, number) for number in range(2, len(parts) + 1))]
        values: dict[str, Any] = {}
        if stands is not None:
            checks = tables.check_rows(stands)
            source = self._streams.get((stands.source.tap, stands.source.stream)) if stands.source else None
            values = {
                "last_run": tables.in_short(stands)["last_run"],
                "stream_path": stream_path(source) if source is not None else None,
                "declared": list(tables.declared(stands)),
                "sql": tables.statement(stands),
                "checks": checks[: tables.CHECKS],
                "checks_left_out": max(0, len(checks) - tables.CHECKS),
                "runs": [(run, parse_timestamp(run.at)) for run in stands.runs[:_RUNS]],
            }
        yield self._page(path, "table.html", facts=table, tree=parts[0], pager=_pager(paths, 0), **values)
        for number in range(1, len(parts)):
            yield self._page(
                paths[number],
                "columns.html",
                facts=table,
                table_path=path,
                tree=parts[number],
                pager=_pager(paths, number),
            )

    def _schema_pages(self, values: Mapping[str, Any], row: Row) -> Iterator[Page]:
        facts = row.facts
        parts = _tree(facts)
        changes = changes_of(facts.diff) if facts.diff else ()
        base = row.path.removesuffix(".html")
        paths = [row.path, *(f"{base}/{number}.html" for number in range(2, len(parts) + 1))]
        for number, part in enumerate(parts):
            yield self._page(
                paths[number],
                "schema.html",
                **values,
                row=row,
                changes=changes[:_WHOLE_CHANGES] if number == 0 else (),
                left_out=max(0, len(changes) - _WHOLE_CHANGES),
                tree=part,
                pager=_pager(paths, number),
            )

    def _paged(
        self, path: str, base: str, template: str, name: str, rows: Sequence[Any], values: Mapping[str, Any]
    ) -> Iterator[Page]:
        chunks = _chunks(rows, ROWS)
        paths = [path, *(f"{base}/{number}.html" for number in range(2, len(chunks) + 1))]
        for number, chunk in enumerate(chunks):
            yield self._page(paths[number], template, **values, **{name: chunk}, pager=_pager(paths, number))

    def _page(self, path: str, template: str, /, **values: Any) -> Page:
        # From one file of the site to any other.
        up = "../" * path.count("/")
        return Page(path, template, {"lake": self.lake, "now": self.lake.now, "up": up, **values})


def tap_path(tap: TapFacts) -> str:
    """Where the page of a tap is."""
    return f"taps/{page_name(tap.tap)}.html"


def stream_path(stream: StreamFacts) -> str:
    """Where the page of a stream is."""
    return f"streams/{page_name(stream.tap)}/{page_name(stream.stream)}.html"


def version_path(stream: StreamFacts, facts: VersionFacts) -> str:
    """Where the page of a version is: by its label, or by its hash where a manifest gives a label twice."""
    labels = [each.version.label for each in stream.versions]
    label = facts.version.label
    name = page_name(label if labels.count(label) == 1 else facts.version.hash)
    return f"schemas/{page_name(stream.tap)}/{page_name(stream.stream)}/{name}.html"


def _source_text(table: TableFacts) -> str:
    if table.standing is None:
        return ""
    source = table.standing.source
    return f"{source.tap} {source.stream}" if source is not None else " ".join(table.standing.made_from)


def _history_path(stream: StreamFacts, number: int) -> str:
    return f"history/{page_name(stream.tap)}/{page_name(stream.stream)}/{number}.html"


def _row(stream: StreamFacts, facts: VersionFacts) -> Row:
    changes = changes_of(facts.diff) if facts.diff else ()
    return Row(
        facts=facts,
        path=version_path(stream, facts),
        short=in_short(facts.diff) if facts.diff else "the first version",
        compatible=facts.diff is None or facts.diff.compatible,
        changes=changes[:CHANGES],
        more=max(0, len(changes) - CHANGES),
    )


def _tree(facts: VersionFacts) -> list[Any]:
    schema = facts.schema
    nodes = tree_of(schema.schema, keys=schema.key_properties, bookmarks=schema.bookmark_properties)
    return pages_of(nodes, TREE_BYTES)


def _property_names(stream: StreamFacts) -> list[str]:
    schema = stream.current.schema.schema if stream.current else None
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return list(properties) if isinstance(properties, dict) else []


def _chunks(rows: Sequence[Item], most: int) -> list[Sequence[Item]]:
    """At least one, which may be empty."""
    return [rows[start : start + most] for start in range(0, max(1, len(rows)), most)]


def _pager(paths: Sequence[str], number: int) -> Mapping[str, Any] | None:
    """Where the reader is among several pages of one thing; None for a single one."""
    if len(paths) == 1:
        return None
    return {
        "number": number + 1,
        "of": len(paths),
        "before": paths[number - 1] if number else None,
        "after": paths[number + 1] if number + 1 < len(paths) else None,
    }

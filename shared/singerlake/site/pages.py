"""Which pages a site has, and the values that their templates get. Pure."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeVar

from singerlake.clock import parse_timestamp
from singerlake.humanize import checks_in_short, cut
from singerlake.site import attention, chart
from singerlake.site.attention import Finding, Level
from singerlake.site.facts import LakeFacts, StreamFacts, TableFacts, TapFacts, Totals, VersionFacts, tally_of, totals
from singerlake.site.lineage import Id, Lineage, Thing
from singerlake.site.lineage import Kind as ThingKind
from singerlake.site.paths import (
    LINEAGE,
    STREAMS,
    TABLES,
    TAPS,
    columns_path,
    history_path,
    lineage_path,
    stream_path,
    table_path,
    tap_path,
    version_path,
)
from singerlake.site.picture import Picture, picture
from singerlake.site.table_page import CHECKS, check_rows, column_tree, declared, inputs_of, statement
from singerlake.site.tree import Node, pages_of, tree_of
from singerlake.upkeep.reports.schema_diff import SchemaDiff

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
_FIRST = 12
"""Of each kind that the first page has: what is more is one link away."""
DRAWN = 60
"""Streams, or tables, of one picture; a lake that has more is drawn by tap, and each tap on pages of its own."""
_NEAR = 12
"""Of a kind in the picture on the page of one thing."""
_KINDS = 50
"""Of attached files that the page of a stream names."""

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


@dataclass(frozen=True, slots=True)
class StreamRow:
    """A stream as lists show it."""

    facts: StreamFacts
    path: str
    tap_path: str
    finding: Finding


@dataclass(frozen=True, slots=True)
class TableRow:
    """A table as lists show it."""

    facts: TableFacts
    path: str
    finding: Finding
    checks: str
    last_run: datetime | None


@dataclass(frozen=True, slots=True)
class TapRow:
    """A tap as lists show it; ``stands`` counts its streams by how they stand, the worst first."""

    tap: TapFacts
    path: str
    finding: Finding | None
    totals: Totals
    stands: tuple[tuple[Finding, int], ...]


@dataclass(frozen=True, slots=True)
class Look:
    """What the first page says that needs a look: a tap, a stream ``of`` one, or a table."""

    kind: str
    name: str
    of: str | None
    path: str
    finding: Finding


class Site:
    """The pages of one lake."""

    def __init__(self, lake: LakeFacts) -> None:
        self.lake = lake
        self._tables_by_name = {each.table: each for each in lake.tables}
        self._inputs = {each.table: inputs_of(each, self._tables_by_name) for each in lake.tables if each.reads}
        streams = [self._stream_row(tap, stream) for tap in lake.taps for stream in tap.streams]
        self._streams = {(each.facts.tap, each.facts.stream): each for each in _worst_first(streams)}
        self._tables = {each.facts.table: each for each in _worst_first(map(self._table_row, lake.tables))}
        self._taps = {each.tap.tap: each for each in _worst_first(map(self._tap_row, lake.taps))}
        self._lineage = self._whole()
        self._is_large = max(len(self._streams), len(self._tables)) > DRAWN

    def pages(self) -> Iterator[Page]:
        """All of them; no two have the same path."""
        yield self._first_page()
        yield from self._paged(STREAMS, "streams.html", "rows", list(self._streams.values()))
        yield from self._paged(TAPS, "taps.html", "rows", list(self._taps.values()))
        if self._has_tables:
            yield from self._paged(TABLES, "tables.html", "rows", list(self._tables.values()))
        yield from self._lineage_pages()
        for tap in self.lake.taps:
            yield from self._tap_pages(tap)
            for stream in tap.streams:
                yield from self._stream_pages(tap, stream)
        for table in self.lake.tables:
            yield from self._table_pages(table)

    @property
    def _has_tables(self) -> bool:
        return bool(self.lake.tables or self.lake.tables_trouble)

    def _stream_row(self, tap: TapFacts, stream: StreamFacts) -> StreamRow:
        return StreamRow(stream, stream_path(stream), tap_path(tap), attention.of_stream(self.lake, stream))

    def _table_row(self, table: TableFacts) -> TableRow:
        standing = table.standing
        older = [each.table for each in self._inputs.get(table.table, ()) if each.is_older]
        run = standing.last_run if standing is not None else None
        return TableRow(
            facts=table,
            path=table_path(table),
            finding=attention.of_table(table, older),
            checks=checks_in_short(len(standing.checks), sum(standing.failing.values())) if standing else "",
            last_run=parse_timestamp(run.at) if run is not None else None,
        )

    def _tap_row(self, tap: TapFacts) -> TapRow:
        stands: dict[str, list[Finding]] = defaultdict(list)
        for stream in tap.streams:
            finding = self._streams[stream.tap, stream.stream].finding
            stands[finding.word].append(finding)
        counted = sorted(((each[0], len(each)) for each in stands.values()), key=lambda pair: pair[0].level)
        return TapRow(tap, tap_path(tap), attention.of_tap(tap), totals(tap.streams), tuple(counted))

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

    def _first_page(self) -> Page:
        streams = self.lake.streams
        looks = list(self._looks())
        first = self._lineage if max(len(self._streams), len(self._tables)) <= _FIRST else self._by_tap()
        return self._page(
            "index.html",
            "lake.html",
            totals=totals(streams),
            looks=looks[:_FIRST],
            looks_left_out=max(0, len(looks) - _FIRST),
            streams=list(self._streams.values())[:_FIRST],
            tables=list(self._tables.values())[:_FIRST],
            taps=list(self._taps.values())[:_FIRST],
            behind=sum(each.finding.word == "behind" for each in self._tables.values()),
            picture=picture(first),
            chart=chart.growth(tally_of(streams)),
        )

    def _looks(self) -> Iterator[Look]:
        """What needs a look, the worst first; of the same kind taps come first, and tables last."""
        found = [Look("tap", row.tap.tap, None, row.path, row.finding) for row in self._taps.values() if row.finding]
        for stream in self._streams.values():
            found.append(Look("stream", stream.facts.stream, stream.facts.tap, stream.path, stream.finding))
        if self.lake.tables_trouble:
            finding = Finding(Level.UNREADABLE, "unreadable", self.lake.tables_trouble)
            found.append(Look("list", "tables", None, TABLES, finding))
        for table in self._tables.values():
            found.append(Look("table", table.facts.table, None, table.path, table.finding))
        yield from sorted((each for each in found if each.finding.needs_a_look), key=lambda look: look.finding.level)

    def _whole(self) -> Lineage:
        """What is made from what in the whole lake."""
        made = Lineage()
        for tap in self._taps.values():
            made.add(("tap", tap.tap.tap), _thing("tap", tap.tap.tap, tap.path, tap.finding))
        for stream in self._streams.values():
            facts = stream.facts
            thing = _thing("stream", facts.stream, stream.path, stream.finding)
            made.add(_id(facts.tap, facts.stream), thing, [("tap", facts.tap)])
        for table in self._tables.values():
            standing, name = table.facts.standing, table.facts.table
            source = standing.source if standing is not None else None
            above: list[Id] = [("table", each.table) for each in table.facts.reads]
            if source is not None:
                above.append(_id(source.tap, source.stream))
                if above[-1] not in made.things:
                    made.add(above[-1], _gone("stream", f"{source.tap}.{source.stream}"))
            kind: ThingKind = "statement" if standing is not None and statement(standing) else "table"
            made.add(("table", name), _thing(kind, name, table.path, table.finding), above)
        for table in self._tables.values():
            for each in table.facts.reads:
                if each.table not in self._tables:
                    made.add(("table", each.table), _gone("table", each.table))
        return made

    def _by_tap(self) -> Lineage:
        def path_of(kind: ThingKind, taps: Sequence[str]) -> str | None:
            known = self._taps.get(taps[0]) if len(taps) == 1 else None
            if known is not None and self._is_large:
                return lineage_path(known.tap, 1)
            return (known.path if known is not None else STREAMS) if kind == "stream" else TABLES

        return self._lineage.by_tap(path_of).at_most(_NEAR)

    def _near(self, here: Id) -> Picture | None:
        return picture(self._lineage.around(here).at_most(_NEAR, here), here)

    def _lineage_pages(self) -> Iterator[Page]:
        if not self._is_large:
            yield self._page(LINEAGE, "lineage.html", picture=picture(self._lineage), pages=[])
            return
        pages = [(tap.tap.tap, lineage_path(tap.tap, 1), tap.totals.streams) for tap in self._taps.values()]
        chunks = _chunks(pages, ROWS)
        paths = _paths(LINEAGE, len(chunks))
        for number, chunk in enumerate(chunks):
            drawn = picture(self._by_tap()) if number == 0 else None
            yield self._page(paths[number], "lineage.html", picture=drawn, pages=chunk, pager=_pager(paths, number))
        for tap in self._taps.values():
            parts = _chunks([("stream", each.tap, each.stream) for each in tap.tap.streams], DRAWN)
            paths = [lineage_path(tap.tap, number + 1) for number in range(len(parts))]
            for number, part in enumerate(parts):
                drawn = picture(self._lineage.around(*part).at_most(DRAWN))
                pager = _pager(paths, number)
                yield self._page(paths[number], "lineage_of_tap.html", tap=tap, picture=drawn, pager=pager)

    def _tap_pages(self, tap: TapFacts) -> Iterator[Page]:
        mine = [self._streams[tap.tap, stream.stream] for stream in tap.streams]
        values = {
            "tap": tap,
            "totals": totals(tap.streams),
            "chart": chart.growth(tally_of(tap.streams)),
            "picture": self._near(("tap", tap.tap)),
            "whole": lineage_path(tap, 1) if self._is_large else LINEAGE,
        }
        yield from self._paged(tap_path(tap), "tap.html", "rows", _worst_first(mine), values)

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
            older=history_path(stream, 2) if older else None,
            current=shown,
            tree=parts[0],
            tree_goes_on=len(parts) > 1,
            chart=chart.arrivals(stream.tally),
            runs=self.lake.runs(stream, _RUNS),
            kinds=stream.attached.kinds[:_KINDS],
            finding=self._streams[stream.tap, stream.stream].finding,
            picture=self._near(_id(stream.tap, stream.stream)),
        )
        for number, chunk in enumerate(older, 2):
            yield self._page(
                history_path(stream, number),
                "history.html",
                **values,
                rows=chunk,
                number=number,
                newer=history_path(stream, number - 1) if number > 2 else path,
                older=history_path(stream, number + 1) if number < len(older) + 1 else None,
            )
        for row in rows:
            yield from self._schema_pages(values, row, parts if row is shown else _tree(row.facts))

    def _table_pages(self, table: TableFacts) -> Iterator[Page]:
        row, stands = self._tables[table.table], table.standing
        source = None
        if stands is not None and stands.source is not None:
            source = self._streams.get((stands.source.tap, stands.source.stream))
        parts = pages_of(column_tree(table, source.facts if source is not None else None), TREE_BYTES)
        paths = [row.path, *(columns_path(table, number) for number in range(2, len(parts) + 1))]
        values: dict[str, Any] = {}
        if stands is not None:
            checks = check_rows(stands)
            values = {
                "source": source,
                "inputs": self._inputs.get(table.table, [])[:CHECKS],
                "picture": self._near(("table", table.table)),
                "declared": list(declared(stands)),
                "sql": statement(stands),
                "checks": checks[:CHECKS],
                "checks_left_out": max(0, len(checks) - CHECKS),
                "runs": [(run, parse_timestamp(run.at)) for run in stands.runs[:_RUNS]],
            }
        yield self._page(row.path, "table.html", facts=table, row=row, tree=parts[0], pager=_pager(paths, 0), **values)
        for number in range(1, len(parts)):
            yield self._page(
                paths[number],
                "columns.html",
                facts=table,
                table_path=row.path,
                tree=parts[number],
                pager=_pager(paths, number),
            )

    def _schema_pages(self, values: Mapping[str, Any], row: Row, parts: Sequence[Any]) -> Iterator[Page]:
        changes = changes_of(row.facts.diff) if row.facts.diff else ()
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
        self, path: str, template: str, name: str, rows: Sequence[Any], values: Mapping[str, Any] | None = None
    ) -> Iterator[Page]:
        chunks = _chunks(rows, ROWS)
        paths = _paths(path, len(chunks))
        for number, chunk in enumerate(chunks):
            yield self._page(paths[number], template, **(values or {}), **{name: chunk}, pager=_pager(paths, number))

    def _page(self, path: str, template: str, /, **values: Any) -> Page:
        # From one file of the site to any other.
        up = "../" * path.count("/")
        fixed = {"lake": self.lake, "now": self.lake.now, "up": up, "path": path, "has_tables": self._has_tables}
        return Page(path, template, {**fixed, **values})


Ranked = TypeVar("Ranked", StreamRow, TableRow, TapRow)


def _worst_first(rows: Iterable[Ranked]) -> list[Ranked]:
    """The worst first; what stands alike keeps its order, which is by name."""

    def level(row: Ranked) -> int:
        if isinstance(row, TapRow):
            findings = [*(finding for finding, _ in row.stands), *([row.finding] if row.finding else [])]
            return min((finding.level for finding in findings), default=Level.FINE)
        return row.finding.level

    return sorted(rows, key=level)


def _id(tap: str, stream: str) -> Id:
    return ("stream", tap, stream)


def _thing(kind: ThingKind, name: str, path: str, finding: Finding | None) -> Thing:
    return Thing(kind, name, path, finding.word, finding.tone) if finding is not None else Thing(kind, name, path)


def _gone(kind: ThingKind, name: str) -> Thing:
    return Thing(kind, name, None, "not in this lake", "warm")


def _paths(path: str, count: int) -> list[str]:
    """Where a page is that goes on on further ones. Folders of lists are those of taps and tables, so that what is
    more of a list lies elsewhere."""
    base = path.removesuffix(".html")
    base = base if "/" in base else f"more/{base}"
    return [path, *(f"{base}/{number}.html" for number in range(2, count + 1))]


def _source_text(table: TableFacts) -> str:
    if table.standing is None:
        return ""
    source = table.standing.source
    return f"{source.tap} {source.stream}" if source is not None else " ".join(table.standing.made_from)


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
    """The names of a stream's properties; of one within another, with the way to it, as ``address.street``."""
    return [name for node in tree_of(stream.current.schema.schema) for name in _ways(node)] if stream.current else []


def _ways(node: Node, above: str = "") -> Iterator[str]:
    yield above + node.name
    for each in node.children:
        yield from _ways(each, f"{above}{node.name}.")


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


Kind = Literal["added", "removed", "changed", "breaking", "renamed", "keys"]

_PATH, _TEXT = 300, 300
"""Characters that are shown of a property's path, and of what is said of it."""


@dataclass(frozen=True, slots=True)
class Change:
    """One line. ``breaking`` is a change that readers of the version before notice."""

    kind: Kind
    path: str
    says: str

    @property
    def mark(self) -> str:
        """As ``singerlake diff`` writes it."""
        return {"added": "+", "removed": "-", "changed": "~", "breaking": "!", "renamed": "?", "keys": "!"}[self.kind]


def changes_of(difference: SchemaDiff) -> tuple[Change, ...]:
    """What readers notice first, then the rest in the order of the schemas."""
    return tuple(Change(kind, cut(path, _PATH), cut(says, _TEXT)) for kind, path, says in _lines(difference))


def _lines(difference: SchemaDiff) -> Iterator[tuple[Kind, str, str]]:
    if difference.keys is not None:
        before, after = (", ".join(keys) or "none" for keys in difference.keys)
        yield "keys", "keys", f"{before} → {after}"
    for each in difference.removed:
        yield "removed", each.path, each.full_type
    for compatible in (False, True):
        for change in difference.changed:
            if change.compatible == compatible:
                types = " → ".join(dict.fromkeys((change.before.full_type, change.after.full_type)))
                yield "changed" if compatible else "breaking", change.before.path, f"{types}: {', '.join(change.how)}"
    for each in difference.added:
        yield "added", each.path, each.full_type
    for pair in difference.renamed:
        yield "renamed", f"{cut(pair.before, _PATH // 2)} → {cut(pair.after, _PATH // 2)}", "looks renamed"


def in_short(difference: SchemaDiff) -> str:
    """``2 added, 1 removed``."""
    counts = (
        (len(difference.added), "added"),
        (len(difference.removed), "removed"),
        (len(difference.changed), "changed"),
    )
    told = [f"{count:,} {what}" for count, what in counts if count] + (["other keys"] if difference.keys else [])
    return ", ".join(told) or "no property differs"

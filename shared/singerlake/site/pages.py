"""Which pages a site has, their names, and the values that their templates get. Pure."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from singerlake.clock import parse_timestamp
from singerlake.humanize import checks_in_short, cut
from singerlake.site import chart
from singerlake.site.facts import (
    LakeFacts,
    StreamFacts,
    TableFacts,
    TapFacts,
    VersionFacts,
    outcomes,
    tally_of,
    totals,
)
from singerlake.site.tree import LEVELS, Node, pages_of, tree_of
from singerlake.tables.maintain.status import Standing
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
            chart=chart.arrivals(stream.tally),
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
            {"facts": each, "path": table_path(each), **(standing_in_short(each.standing) if each.standing else {})}
            for each in self.lake.tables
        ]
        yield from self._paged(TABLES, "more-tables", "tables.html", "tables", rows, {})

    def _table_pages(self, table: TableFacts) -> Iterator[Page]:
        path, stands = table_path(table), table.standing
        parts = pages_of(column_tree(table), TREE_BYTES)
        paths = [path, *(columns_path(table, number) for number in range(2, len(parts) + 1))]
        values: dict[str, Any] = {}
        if stands is not None:
            checks = check_rows(stands)
            source = self._streams.get((stands.source.tap, stands.source.stream)) if stands.source else None
            values = {
                "last_run": standing_in_short(stands)["last_run"],
                "stream_path": stream_path(source) if source is not None else None,
                "declared": list(declared(stands)),
                "sql": statement(stands),
                "checks": checks[:CHECKS],
                "checks_left_out": max(0, len(checks) - CHECKS),
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


CHECKS = 200
"""Of a table that its page shows."""
_NAME, _TYPE, _DECLARED_TEXT, _SQL = 300, 200, 1000, 20_000
"""Characters that are shown of a column's name, of its type, of a part of the declaration, of a statement."""
_DECLARED = (
    ("keep", "Keeps"),
    ("key", "Key"),
    ("order_by", "Order of records"),
    ("sort_by", "Order of rows"),
    ("partition_by", "Folders"),
    ("deleted_when", "Deleted when"),
    ("format", "Format"),
)


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A check; ``failing`` counts rows of the last run that it does not hold for."""

    column: str
    condition: str
    action: str
    failing: int


def table_path(table: TableFacts) -> str:
    """Where the page of a table is."""
    return f"tables/{page_name(table.table)}.html"


def columns_path(table: TableFacts, number: int) -> str:
    """Where the columns of a table go on."""
    return f"columns/{page_name(table.table)}/{number}.html"


def column_tree(table: TableFacts) -> tuple[Node, ...]:
    """The columns of a table in their order; those of a struct lie below it."""
    return tuple(_node(each.name, each.type, ("key",) if each.name in table.key else (), 0) for each in table.columns)


def check_rows(standing: Standing) -> list[CheckRow]:
    """The checks of a table, those that do not hold first."""
    rows = [
        CheckRow(cut(column, _NAME), cut(text, _DECLARED_TEXT), action, standing.failing.get(f"{column} {text}", 0))
        for column, text, action in standing.checks
    ]
    return sorted(rows, key=lambda row: -row.failing)


def declared(standing: Standing) -> Iterator[tuple[str, str]]:
    """What a page says of the declaration: words for people, each with its text."""
    for key, words in _DECLARED:
        value = standing.declaration.get(key)
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value or "")
        if text:
            yield words, cut(text, _DECLARED_TEXT)


def statement(standing: Standing) -> str:
    """The SQL statement that makes the table; empty where none does."""
    sql = standing.declaration.get("sql")
    return cut(sql, _SQL) if isinstance(sql, str) else ""


def standing_in_short(standing: Standing) -> Mapping[str, Any]:
    """What a list of tables shows of one."""
    run = standing.last_run
    return {
        "checks": checks_in_short(len(standing.checks), sum(standing.failing.values())),
        "failing": bool(standing.failing),
        "last_run": parse_timestamp(run.at) if run is not None else None,
    }


def _node(name: str, type: Any, marks: tuple[str, ...], level: int) -> Node:
    fields = _fields(type)
    deeper = bool(fields) and level + 1 >= LEVELS
    return Node(
        name=cut(name, _NAME),
        type=cut(_words(type), _TYPE),
        marks=marks,
        children=() if deeper else tuple(_node(str(inner), of, (), level + 1) for inner, of in fields),
        deeper=deeper,
    )


def _fields(type: Any) -> Sequence[Any]:
    """The fields of a struct, or of the structs in an array."""
    while isinstance(type, dict) and "array" in type:
        type = type["array"]
    return type.get("struct", ()) if isinstance(type, dict) else ()


def _words(type: Any) -> str:
    arrays = 0
    while isinstance(type, dict) and "array" in type:
        type, arrays = type["array"], arrays + 1
    if isinstance(type, dict):
        plain = f"decimal({', '.join(map(str, type['decimal']))})" if "decimal" in type else "struct"
    else:
        plain = str(type)
    return "array of " * arrays + plain


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


_LONGEST = 60
_PLAIN = re.compile(r"[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?\Z")
_WINDOWS = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)\Z")


def page_name(name: str) -> str:
    """The name itself where it is plain: short, lower case, no device of Windows. Otherwise what is plain of it and a
    mark made from the whole, so that names which differ only by case, or in nothing a file system keeps, stay apart.
    No plain name holds the ``~`` before a mark, so that nobody can choose a name to take another's page.
    """
    if len(name) <= _LONGEST and _PLAIN.match(name) and not _WINDOWS.match(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()
    mark = base64.b32hexencode(digest)[:10].decode("ascii").lower()
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower())[:_LONGEST].strip("-")
    return f"{plain or 'name'}~{mark}"

"""Lakes to make pages of: manifests put where they belong, without data files unless a test needs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from singerlake.format import layout
from singerlake.format.schema_hash import full_hash
from singerlake.format.state import fold
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Manifest, Run, SchemaVersion
from singerlake.lake import Lake
from singerlake.site.build import SiteResult, build_site
from singerlake.tables.state.keys import state_key
from singerlake.tables.state.model import ColumnEntry, TableRun, TableSource, TableState
from singerlake.tables.state.model import to_json as table_json
from tests.fakes import FakeClock, counting_ids
from tests.storage.memory import MemoryStorage

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"id": {"type": "integer"}}}
HOSTILE = (
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "\"double' & <b>",
    "e" * 120,
    "🐙🌊",
    "\ud800lone",
    "\u202egnp.exe",
    "CON",
    "con",
    "nul",
    "com1",
    "Orders",
    "ORDERS",
    "orders",
    "شريط",
    "line\nbreak",
    "</title><img src=x onerror=alert(2)>",
    "${alert(3)}{{ 7*7 }}{% raw %}",
    "javascript:alert(4)",
    "-- -->",
    "%2F",
    "index",
    " ",
)
"""Names that break out of HTML, of attributes, of scripts, of folders, of lines, or of a file system's case."""


def memory_lake() -> Lake:
    """An empty lake whose clock stands still."""
    clock, ids = FakeClock(), counting_ids()
    return Lake(MemoryStorage(clock=clock, ids=ids), clock=clock, ids=ids)


def manifest(
    tap: str,
    stream: str,
    schemas: Sequence[Any] = (SCHEMA,),
    *,
    files: Sequence[Mapping[str, Any]] = ({},),
    keys: Sequence[str] = (),
    bookmarks: Sequence[str] = (),
    runs: Sequence[Run] = (),
) -> Manifest:
    """A state with at least one file for each of ``schemas``; ``files`` say what is special of a file, and are used
    one after another."""
    versions: dict[str, str] = {}
    known: dict[str, SchemaVersion] = {}
    listed: list[DataFile] = []
    offset = 0
    for number in range(max(len(files), len(schemas))):
        schema = schemas[min(number, len(schemas) - 1)]
        version = full_hash(schema)
        if version not in known:
            versions[version] = f"v{len(versions) + 1}"
            known[version] = SchemaVersion(
                schema=schema,
                key_properties=tuple(keys),
                bookmark_properties=tuple(bookmarks),
                first_offset=offset,
                first_seen="2026-01-01T00:00:00Z",
            )
        plain = {"id": f"{number:016d}", "path": f"x/{number}", "version": version, "offset": offset, "messages": 10}
        plain |= {"records": 10, "bytes": 1000, "raw_bytes": 9000, "sha256": "0" * 64, "members": ((0, 10),)}
        given = {"last": "2026-01-01T00:00:00Z", **files[min(number, len(files) - 1)]}
        file = DataFile(**{**plain, "first": given["last"], **given})
        listed.append(file)
        offset = file.end
    born = fold.empty(tap=tap, stream=stream, store="lockfile", lineage="l", created="2026", transaction_id="birth")
    return msgspec.structs.replace(
        born, files=listed, versions=versions, schemas=known, next_offset=offset, runs=tuple(runs)
    )


def put(lake: Lake, *manifests: Manifest) -> None:
    """Store states where readers look for them."""
    for each in manifests:
        lake.storage.put(layout.manifest_key(each.tap, each.stream), to_json(each))
    lake.announce(*manifests)


def built(lake: Lake, folder: Path, **options: Any) -> tuple[SiteResult, dict[str, str]]:
    """The site of a lake, and the text of each of its files but the list of them."""
    done = build_site(lake, folder, **options)
    return done, {path: (folder / path).read_text("utf-8") for path in (file.path for file in done.files)}


def table(name: str, tap: str, stream: str, columns: Mapping[str, Any] | None = None, **more: Any) -> TableState:
    """A published state that holds all of a stream's messages but the last ten, of the lineage of ``manifest``."""
    declaration = {"tap": tap, "stream": stream, "keep": "latest", **more.pop("declaration", {})}
    columns = columns or {"id": "integer"}
    entries = tuple(ColumnEntry(name=name, type=type) for name, type in columns.items())
    key = ("id",) if "id" in columns else ()
    run = TableRun(id="r", at="2025-12-31T21:00:00Z", kind="run", stop=10, records=10, inserted=4)
    plain = {"number": 1, "generation": 1, "committed": run.at, "key": key, "order": key, "runs": (run,)}
    return TableState(
        lake_id="lake",
        table=name,
        id="s",
        declaration=declaration,
        columns=entries,
        **{**plain, "sources": (TableSource(tap=tap, stream=stream, lineage="l", offset=10),), **more},
    )


def put_table(lake: Lake, *states: TableState) -> None:
    """Store states of tables where readers look for them."""
    for each in states:
        lake.storage.put(state_key(each.table), table_json(each))

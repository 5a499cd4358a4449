"""A lake as companies have one, to look at: some streams failed or are stale, and statements read tables."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from singerlake.clock import timestamp
from singerlake.format.state.model import Run
from singerlake.lake import Lake
from singerlake.tables.state.keys import file_path, state_key
from singerlake.tables.state.model import MadeFrom, TableFile, TableRun, TableState
from singerlake.upkeep.annotate import Edit, annotate
from tests.fakes import START
from tests.site.lakes import manifest, memory_lake, put, put_table, table

_FLIGHT: dict[str, Any] = {
    "id": {"type": "integer", "description": "Number of the flight in the source"},
    "departed_at": {"type": "string", "format": "date-time", "description": "When it left the gate, UTC"},
    "carrier": {"type": "string", "description": "Two letters of IATA", "maxLength": 2},
    "origin": {"type": "string", "description": "Airport that it left"},
    "dep_delay": {"type": ["null", "number"], "description": "Minutes late; early is negative"},
    "aircraft": {"type": "object", "properties": {"tail_number": {"type": "string"}, "seats": {"type": "integer"}}},
}
_ACCOUNT: dict[str, Any] = {
    "id": {"type": "string"},
    "name": {"type": "string"},
    "owner": {"type": ["null", "string"]},
    "created_at": {"type": "string", "format": "date-time"},
}
_STREAMS: tuple[tuple[str, str, dict[str, Any], int, int], ...] = (
    # Tap, stream, properties, hours between its runs, and hours since the newest.
    ("postgres", "public-airlines", _ACCOUNT, 24, 5),
    ("postgres", "public-airports", _ACCOUNT, 24, 5),
    ("salesforce", "Account", _ACCOUNT, 12, 3),
    ("salesforce", "Contact", _ACCOUNT, 12, 3),
    ("salesforce", "Opportunity", _ACCOUNT, 12, 3),
    ("stripe", "charges", _ACCOUNT, 6, 75),
    ("stripe", "customers", _ACCOUNT, 6, 75),
    ("postgres", "public-weather", _FLIGHT, 6, 2),
    ("postgres", "public-flights", _FLIGHT, 6, 2),
)
_ENDS = {"salesforce/Opportunity": "failed", "salesforce/Contact": "stopped", "postgres/public-weather": "running"}
_DELAYS = """SELECT airlines.name, avg(flights.dep_delay) AS minutes_late
FROM flights JOIN airlines ON airlines.id = flights.carrier
GROUP BY airlines.name"""
_PUNCTUALITY = "SELECT name, minutes_late < 15 AS on_time FROM delays_by_airline"
_REVENUE = """SELECT accounts.name, sum(charges.amount) AS revenue
FROM charges JOIN customers ON customers.id = charges.customer JOIN accounts ON accounts.id = customers.account
GROUP BY accounts.name"""
_AMOUNTS = {"delays_by_airline": "minutes_late", "punctuality": "on_time", "revenue": "revenue"}
_RUNS = 12
_FILES = 30


def showcase(*, calm: bool = False) -> Lake:
    """The lake, whose clock stands still. ``calm``: less is wrong with it, as on most days."""
    lake = memory_lake()
    ends = {} if calm else _ENDS
    for size, (tap, stream, properties, apart, ago) in enumerate(_STREAMS, 1):
        moments = [START - timedelta(hours=ago + apart * n) for n in reversed(range(_FILES))]
        files = [
            {
                "last": timestamp(moment),
                "bytes": (40_000 + 9000 * n % 37_000) * size,
                "raw_bytes": 410_000 * size,
                "records": 997 * size,
                "messages": 1000 * size,
            }
            for n, moment in enumerate(moments)
        ]
        how = ends.get(f"{tap}/{stream}", "finished")
        newest = len(moments) - 1
        runs = [
            Run(
                id=f"{tap}-{n}",
                writer=f"meltano-{tap}",
                started=timestamp(moment - timedelta(minutes=4)),
                updated=timestamp(moment),
                status=how if n == newest else "finished",
                files=1,
                messages=1000 * size,
                records=997 * size,
                bytes=40_000 * size,
            )
            for n, moment in enumerate(moments)
        ][-_RUNS:]
        first = {name: each for name, each in properties.items() if name != "owner"}
        schemas: list[dict[str, Any]] = [{"type": "object", "properties": first, "required": ["id"]}] * 12
        schemas += [{"type": "object", "properties": properties, "required": ["id"]}] * (_FILES - 12)
        put(lake, manifest(tap, stream, schemas, files=files, runs=runs, keys=["id"]))
    if not calm:
        lake.storage.put("raw/salesforce/Lead/manifest.json", b'{"format": 99}')
        lake.storage.put(state_key("contacts"), b"{")
    annotate(lake.storage, "postgres", Edit(owner="Data platform", description="Flights, as the operations see them"))
    annotate(lake.storage, "salesforce", Edit(owner="Sales operations", links={"runbook": "https://example.com/crm"}))
    annotate(lake.storage, "stripe", Edit(owner="Finance"))
    _put_tables(lake)
    return lake


def _put_tables(lake: Lake) -> None:
    flights = {
        "id": "integer",
        "departed": "timestamp",
        "carrier": "text",
        "dep_delay": "double",
        "aircraft": {"struct": [["tail_number", "text"], ["seats", "integer"]]},
    }
    account = {"id": "text", "name": "text", "owner": "text", "created_at": "timestamp"}
    checks = [["id", "not_null", "fail"], ["dep_delay", "> -60", "warn"], ["carrier", "not_null", "drop"]]
    declared = {"checks": checks, "columns": {"departed_at": {"rename": "departed"}}, "order_by": ["departed_at"]}
    made = {
        "flights": _of("flights", "postgres", "public-flights", flights, 268_000, declared, {"dep_delay > -60": 17}),
        "airlines": _of("airlines", "postgres", "public-airlines", account, 30_000, {"checks": checks[:1]}),
        "accounts": _of("accounts", "salesforce", "Account", account, 90_000),
        "charges": _of("charges", "stripe", "charges", account, 180_000),
        "customers": _of("customers", "stripe", "customers", account, 210_000),
    }
    put_table(lake, *made.values())
    put_table(
        lake,
        delays := _statement("delays_by_airline", _DELAYS, [made["flights"], made["airlines"]]),
        _statement("punctuality", _PUNCTUALITY, [delays]),
        _statement("revenue", _REVENUE, [made["accounts"], made["charges"], made["customers"]]),
    )


def _of(
    name: str,
    tap: str,
    stream: str,
    columns: dict[str, Any],
    offset: int,
    declaration: dict[str, Any] | None = None,
    failing: dict[str, int] | None = None,
) -> TableState:
    runs = tuple(
        TableRun(
            id=f"r{n}",
            at=timestamp(START - timedelta(hours=6 * n + 1)),
            kind="run",
            start=offset - 1000 * (n + 1),
            stop=offset - 1000 * n,
            records=900,
            inserted=700,
            updated=200,
            checks=failing or {},
        )
        for n in reversed(range(5))
    )
    made = table(name, tap, stream, columns, declaration=declaration or {}, runs=runs)
    return _up_to(made, offset)


def _up_to(made: TableState, offset: int) -> TableState:
    source = msgspec.structs.replace(made.sources[0], offset=offset)
    order: list[tuple[Any, ...]] = [(1,), (2,)] if made.columns[0].type == "integer" else [("1",), ("2",)]
    return msgspec.structs.replace(made, sources=(source,), files=_files(made.table, offset // 4, order))


def _files(name: str, rows: int, order: list[tuple[Any, ...]]) -> tuple[TableFile, ...]:
    """Two files, of so many rows together, which begin and end in that order."""
    half = rows // 2
    return tuple(
        TableFile(
            id=f"{n:016d}",
            path=file_path(name, 1, (), f"{n:016d}", "parquet"),
            rows=each,
            bytes=each * 41,
            sha256="0" * 64,
            first=order[n],
            last=order[n],
            offsets=(0, 0),
        )
        for n, each in enumerate((half, rows - half))
    )


def _statement(name: str, sql: str, read: list[TableState]) -> TableState:
    made_from = tuple(MadeFrom(table=each.table, generation=1, number=1, rows=each.rows_id) for each in read)
    run = TableRun(id="r", at=timestamp(START - timedelta(minutes=40)), kind="run", records=16, inserted=16)
    columns = {"name": "text", _AMOUNTS[name]: "double"}
    more = {"sources": (), "made_from": made_from, "runs": (run,), "files": _files(name, 16, [(), ()])}
    return table(name, "", "", columns, declaration={"sql": sql, "keep": ""}, **more)

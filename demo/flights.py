"""The source of the demo: flights that left New York in 2013, in a PostgreSQL table that changes between two runs."""

from __future__ import annotations

import io

import pandas
import psycopg
from psycopg import sql

from tools.nycflights import airlines, flights

TABLE = sql.Identifier("flights")
TYPES = {"int64": "bigint", "float64": "integer", "str": "text", "object": "text"}
LAST_MONTH_LOADED = 11


def load(dsn: str) -> int:
    """Create the table, load January to November; the number of rows."""
    year = flights()
    types = {name: TYPES[str(dtype)] for name, dtype in year.dtypes.items()} | {"time_hour": "timestamptz"}
    columns = [sql.SQL("{} {}").format(sql.Identifier(name), sql.SQL(kind)) for name, kind in types.items()]
    with psycopg.connect(dsn) as connection:
        connection.execute(
            sql.SQL("CREATE TABLE {} (id integer PRIMARY KEY, {}, updated_at timestamptz NOT NULL)").format(
                TABLE, sql.SQL(", ").join(columns)
            )
        )
        return _copy(connection, year[year.month <= LAST_MONTH_LOADED])


def change(dsn: str) -> int:
    """Add a column, load December, fill the column in for November and December; the number of rows new or changed."""
    year = flights()
    with psycopg.connect(dsn) as connection:
        connection.execute(sql.SQL("ALTER TABLE {} ADD COLUMN airline text").format(TABLE))
        _copy(connection, year[year.month > LAST_MONTH_LOADED])
        connection.execute("CREATE TEMPORARY TABLE airlines (carrier text, name text)")
        names = airlines()[["carrier", "name"]].to_records(index=False).tolist()
        connection.cursor().executemany("INSERT INTO airlines VALUES (%s, %s)", names)
        filled = connection.execute(
            sql.SQL(
                "UPDATE {} SET airline = airlines.name, updated_at = updated_at + interval '60 days' "
                "FROM airlines WHERE airlines.carrier = flights.carrier AND month >= %s"
            ).format(TABLE),
            [LAST_MONTH_LOADED],
        )
        return filled.rowcount


def _copy(connection: psycopg.Connection, rows: pandas.DataFrame) -> int:
    """COPY rows of the data set; each counts as changed at the hour the flight was to leave."""
    whole = {name: "Int64" for name, dtype in rows.dtypes.items() if dtype == "float64"}
    wanted = rows.assign(updated_at=rows.time_hour).astype(whole)
    text = io.StringIO()
    wanted.to_csv(text, index=True, header=False)
    columns = sql.SQL(", ").join(sql.Identifier(name) for name in ["id", *wanted.columns])
    with connection.cursor().copy(sql.SQL("COPY {} ({}) FROM STDIN (FORMAT csv)").format(TABLE, columns)) as copy:
        copy.write(text.getvalue())
    return len(wanted)

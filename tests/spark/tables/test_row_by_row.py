"""Which statements give of each row what they give of that row alone: of the others all rows are made anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

from singerlake.spark.tables.sql import SETTINGS, table_read_row_by_row

SCHEMA = (
    "id long, text string, amount decimal(10,2), ratio double, at timestamp, local timestamp_ntz, day date, "
    "tags array<string>, place struct<city: string, zip: long>, good boolean"
)

ROW_BY_ROW = (
    "*",
    "id, text AS t, id + 1 AS `next one`, place.city, tags[0] AS tag, 'x' AS x, 1.5 AS n, true AS y, NULL AS nothing",
    "upper(trim(text)) AS u, concat(text, '-', id) AS c, text || 'x' AS d, length(text) AS l, substr(text, 1, 3) AS s",
    "regexp_replace(text, 'a', 'b') AS r, text LIKE 'a%' AS k, text ILIKE 'a%' AS i, split(text, ',') AS parts",
    "md5(text) AS m, sha2(text, 256) AS s, xxhash64(id, text) AS x, crc32(text) AS c, get_json_object(text, 'a') AS j",
    "CASE WHEN id > 1 THEN 'a' WHEN good THEN 'b' ELSE text END AS w, if(good, 1, 2) AS i, coalesce(text, '') AS c",
    "nvl(text, '') AS n, ifnull(id, 0) AS i, nvl2(id, 1, 2) AS t, zeroifnull(id) AS z",
    "round(ratio, 2) AS r, abs(id) AS a, amount * 2 AS d, try_divide(id, 0) AS t, id % 3 AS m, greatest(id, 1) AS g",
    "CAST(id AS STRING) AS s, try_cast(text AS INT) AS i, CAST(text AS DECIMAL(10, 2)) AS d, CAST(at AS DATE) AS t",
    "CAST(text AS DATE) AS d, to_date(text, 'yyyy-MM-dd') AS e, to_timestamp(text, 'yyyy-MM-dd HH:mm') AS f",
    "year(at) AS y, date_trunc('day', at) AS t, day + 1 AS d, at + INTERVAL 1 HOUR AS h, date_add(day, 1) AS e",
    "extract(MONTH FROM at) AS m, date_format(at, 'yyyy') AS f, datediff(day, DATE '2026-01-01') AS n, at - local AS g",
    "transform(tags, tag -> upper(tag)) AS u, array_contains(tags, 'a') AS c, size(tags) AS n, to_json(place) AS j",
    "struct(id, text) AS s, named_struct('a', id) AS n, array(id, 1) AS a, array() AS e",
)
CONDITIONS = (
    "id > 1 AND NOT good OR text IN ('a', 'b') AND text IS NOT NULL AND id BETWEEN 1 AND 3 AND text <=> 'a'",
    "at > '2026-01-01' AND at < TIMESTAMP '2026-01-02 03:04:05' AND day >= DATE '2026-01-01' AND at > DATE'2026-1-1'",
    "text <> '😀😀😀' AND day < DATE '2026-01-02'",
    "local < TIMESTAMP_NTZ '2026-01-02 03:04:05.123456' AND at < '2026-01-02T03:04:05Z'",
)
OTHERS = (
    "SELECT id + 1 AS n FROM (SELECT id FROM t WHERE good) WHERE id > 1",
    "FROM t SELECT id WHERE good",
    "SELECT a.id FROM t AS a",
    "SELECT id, id + 1 AS n, n + 1 AS m FROM t",
    f"SELECT {'CASE WHEN good THEN id ELSE ' * 24} 0 {'END ' * 24} AS n FROM t",
)
AT_ONCE = {
    "sum": "SELECT sum(id) AS s FROM t",
    "group": "SELECT text, count(*) AS n FROM t GROUP BY text",
    "having": "SELECT 1 AS n FROM t HAVING count(*) > 1",
    "distinct": "SELECT DISTINCT id FROM t",
    "window": "SELECT row_number() OVER (ORDER BY id) AS n FROM t",
    "order": "SELECT * FROM t ORDER BY id",
    "sort": "SELECT * FROM t SORT BY id",
    "limit": "SELECT * FROM t LIMIT 3",
    "offset": "SELECT * FROM t OFFSET 3",
    "sample": "SELECT * FROM t TABLESAMPLE (50 PERCENT)",
    "union": "SELECT id FROM t UNION ALL SELECT id FROM t",
    "except": "SELECT id FROM t EXCEPT SELECT 1",
    "join": "SELECT a.id FROM t a JOIN t b ON a.id = b.id",
    "cross": "SELECT a.id FROM t a, other b",
    "scalar": "SELECT id, (SELECT max(id) FROM other) AS m FROM t",
    "exists": "SELECT id FROM t WHERE EXISTS (SELECT 1 FROM other)",
    "in": "SELECT id FROM t WHERE id IN (SELECT id FROM other)",
    "in itself": "SELECT id FROM t WHERE id = (SELECT max(id) FROM t)",
    "with": "WITH a AS (SELECT max(id) AS m FROM t) SELECT * FROM a",
    "explode": "SELECT explode(tags) AS tag FROM t",
    "lateral": "SELECT id, tag FROM t LATERAL VIEW explode(tags) AS tag",
    "values": "SELECT * FROM VALUES (1) AS v(n)",
    "no table": "SELECT 1 AS one",
    "range": "SELECT id FROM range(3)",
    "global": "SELECT id FROM global_temp.everyones",
    "hint": "SELECT /*+ REPARTITION(3) */ id FROM t",
}  # fmt: skip
OF_THE_MOMENT = (
    "current_timestamp()", "current_timestamp", "now()", "current_date()", "current_date", "curdate()",
    "localtimestamp()", "current_timezone()", "current_user()", "session_user()", "current_database()",
    "current_catalog()", "current_schema()", "version()", "rand()", "randn(1)", "rand(1)", "uuid()", "shuffle(tags)",
    "randstr(3)", "uniform(1, 5)", "monotonically_increasing_id()", "spark_partition_id()", "input_file_name()",
    "input_file_block_start()", "unix_timestamp()", "to_unix_timestamp(text)", "assert_true(good)", "pi()",
    "reflect('java.lang.System', 'nanoTime')", "try_reflect('java.lang.System', 'nanoTime')",
    "DATE 'today'", "DATE 'Yesterday'", "TIMESTAMP 'now'", "TIMESTAMP_NTZ 'now'", "DATE 't\\u006fday'",
    "TIMESTAMP '12:30:00'", "CAST('now' AS TIMESTAMP)", "CAST('today' AS DATE)", "CAST(concat('to', 'day') AS DATE)",
    "to_date('today')", "to_timestamp('now')", "to_timestamp(text)", "CAST(text AS TIMESTAMP)", "hour(text)",
    "try_cast(text AS TIMESTAMP)", "CAST(text AS TIMESTAMP_NTZ)", "date_add('today', 1)", "at > 'now'", "day < 'today'",
    "CAST(tags AS ARRAY<TIMESTAMP>)", "CAST(place AS STRUCT<city: TIMESTAMP, zip: LONG>)",
    "date_part('hour', text)", "months_between(text, day)", "date_format(text, 'yyyy')", "date_trunc('day', text)",
    "if(good, day, current_date())", "transform(tags, tag -> concat(tag, uuid()))", "struct(now() AS a).a",
    "date_diff(current_date(), day)", "coalesce(at, now())", "at > now() - INTERVAL 1 DAY",
    "(SELECT max(id) FROM other)", "EXISTS (SELECT 1 FROM other)",
)  # fmt: skip
"""Of the moment, of the session or of other rows; ``pi()`` stands for all that nobody has thought of."""


@pytest.fixture(scope="module")
def session(spark: SparkSession) -> Iterator[SparkSession]:
    """One as statements run in, with the tables ``t`` and ``other``."""
    session = spark.newSession()
    for name, value in SETTINGS.items():
        session.conf.set(name, value)
    session.createDataFrame([], SCHEMA).createOrReplaceTempView("t")
    session.range(3).createOrReplaceTempView("other")
    session.range(3).createOrReplaceGlobalTempView("everyones")
    yield session
    session.catalog.dropGlobalTempView("everyones")


def of(session: SparkSession, statement: str) -> DataFrame:
    return session.sql(f"SELECT * FROM ({statement}\n)")


def test_what_is_of_each_row_alone_is_taken_row_by_row(session: SparkSession) -> None:
    statements = [f"SELECT {given} FROM t" for given in ROW_BY_ROW]
    statements += [f"SELECT id FROM t WHERE {condition}" for condition in CONDITIONS]
    found = {each: table_read_row_by_row(of(session, each)) for each in (*statements, *OTHERS)}
    assert found == dict.fromkeys(found, "t")


def test_what_is_of_several_rows_or_tables_is_not(session: SparkSession) -> None:
    found = {name: table_read_row_by_row(of(session, each)) for name, each in AT_ONCE.items()}
    assert found == dict.fromkeys(AT_ONCE)


def test_what_is_of_the_moment_or_the_session_is_not_wherever_it_stands(session: SparkSession) -> None:
    statements = [f"SELECT id, {given} AS x FROM t" for given in OF_THE_MOMENT]
    statements += [f"SELECT id FROM t WHERE ({given}) IS NOT NULL" for given in OF_THE_MOMENT]
    found = {each: table_read_row_by_row(of(session, each)) for each in statements}
    assert found == dict.fromkeys(statements)

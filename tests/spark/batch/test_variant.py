"""JSON of no declared type as variants: the same to Spark as its own ``parse_json`` of the text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from pyspark.sql import SparkSession

from singerlake.arrow.values.values import parse
from singerlake.arrow.values.variant import TooManyDigitsError, encode
from singerlake.lake import Lake
from tests.lakes import build_stream, record_line

SCHEMA = {
    "properties": {
        "id": {"type": "integer"},
        "any": {},
        "list": {"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "string"}]}},
        "deep": {"type": "object", "properties": {"x": {"type": "object"}}},
    }
}
VALUES = [
    '{"b":[1,2.50,"x",null,true],"a":{"é":1e3}}',
    '"text"',
    "7",
    "12345678901234567890.5",
    '{"rate":0.00012345678901234567,"zero":[0.0123456789]}',
    "null",
    "[]",
    '"' + "x" * 100 + '"',
]


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(str(tmp_path / "lake"))
    lines = [
        f'{{"type":"RECORD","stream":"s","record":{{"id":{number},"any":{text},"list":[{number},"y"]}}}}'.encode()
        for number, text in enumerate(VALUES)
    ]
    lines.append(record_line("s", {"id": len(VALUES), "deep": {"x": {"k": [1]}}}))
    build_stream(lake, "t", "s", SCHEMA, lines)
    return lake


def test_variants_are_what_spark_makes_of_the_text(spark: SparkSession, lake: Lake) -> None:
    reader = spark.read.format("singerlake").options(path=lake.storage.url, tap="t", stream="s")
    found = reader.option("variant", "true").load()
    assert found.schema.simpleString() == (
        "struct<id:bigint,any:variant,list:array<variant>,deep:struct<x:variant>,_rescued_data:string>"
    )
    text = reader.option("variant", "false").load()
    kept = ["id", "to_json(any) AS j", "schema_of_variant(any) AS s", "to_json(list[1]) AS l", "to_json(deep.x) AS d"]
    parsed = text.selectExpr(
        "id",
        "parse_json(any) AS any",
        "array(null, parse_json(list[1])) AS list",
        "struct(parse_json(deep.x) x) AS deep",
    )
    rows = found.selectExpr(*kept).orderBy("id").collect()
    assert rows == parsed.selectExpr(*kept).orderBy("id").collect()
    assert [json.loads(row.j) if row.j else None for row in rows[:4]] == [
        {"b": [1, 2.5, "x", None, True], "a": {"é": 1000.0}},
        "text",
        7,
        12345678901234567890.5,
    ]
    assert rows[-1].d == '{"k":[1]}'
    assert found.where("variant_get(any, '$.b[0]', 'int') = 1").count() == 1


def numbers(random: Random) -> Iterator[str]:
    """Numbers of every shape that JSON has: all counts of digits before and after the point, the ends of the integers'
    types, exponents."""
    for bits in (7, 8, 15, 16, 31, 32, 63, 64):
        yield from (str(sign * 2**bits + more) for sign in (1, -1) for more in (-1, 0, 1))
    for before in range(41):
        for after in range(41):
            whole = str(random.randrange(10 ** max(before - 1, 0), 10**before)) if before else "0"
            fraction = "".join(random.choices(random.choice(("0123456789", "0", "9", "01")), k=after))
            yield random.choice(("", "-")) + whole + (f".{fraction}" if after else "")
    for _ in range(1000):
        mantissa = f"{random.randrange(10)}.{random.randrange(10 ** random.randrange(20))}"
        sign, exponent = random.choice(("", "-")), random.choice(("e", "e+", "E-"))
        yield f"{sign}{mantissa}{exponent}{random.randrange(300)}"


@pytest.mark.thorough
def test_numbers_have_the_bytes_that_parse_json_gives_them(spark: SparkSession) -> None:
    """Alone, and within an array and an object. What we refuse, ``parse_json`` rounds to a double."""
    seed = 20
    random = Random(seed)
    texts = list(numbers(random))
    texts += ["[" + ",".join(random.choices(texts, k=3)) + "]" for _ in range(500)]
    texts += [f'{{"a":{random.choice(texts)},"b":{{"c":{random.choice(texts)}}}}}' for _ in range(500)]
    frame = spark.createDataFrame([(text,) for text in texts], "t string")
    parsed = frame.selectExpr("t", "parse_json(t) v", "schema_of_variant(parse_json(t)) s").collect()
    refused = 0
    for row in parsed:
        try:
            value, _ = encode(parse(row.t.encode()))
        except TooManyDigitsError:
            refused += 1
            assert "DOUBLE" in row.s, row.t
            continue
        assert value == row.v.value, row.t
    assert 0 < refused < len(texts) / 2


def test_what_no_variant_holds_is_rescued(spark: SparkSession, lake: Lake) -> None:
    line = b'{"type":"RECORD","stream":"o","record":{"id":1,"any":' + b"9" * 40 + b"}}"
    build_stream(lake, "t", "o", SCHEMA, [line, record_line("o", {"id": 2, "any": [5]})])
    reader = spark.read.format("singerlake").options(path=lake.storage.url, tap="t", stream="o", variant="true")
    rows = reader.load().selectExpr("id", "to_json(any)", "_rescued_data").orderBy("id").collect()
    assert [tuple(row) for row in rows] == [(1, None, '{"any":' + "9" * 40 + "}"), (2, "[5]", None)]


def test_a_schema_of_ones_own_may_ask_for_variants(spark: SparkSession, lake: Lake) -> None:
    reader = spark.read.format("singerlake").options(path=lake.storage.url, tap="t", stream="s")
    found = reader.schema("id VARIANT, deep VARIANT").load()
    rows = found.selectExpr("to_json(id) AS id", "to_json(deep) AS deep").collect()
    assert sorted(row.id for row in rows) == [str(number) for number in range(len(VALUES) + 1)]
    assert [row.deep for row in rows if row.deep] == ['{"x":{"k":[1]}}']

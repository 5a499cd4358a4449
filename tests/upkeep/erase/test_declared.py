"""Conditions that can hold for no record, by what the versions of a stream declare."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from singerlake.conditions import parse_condition, parse_where
from singerlake.errors import SingerlakeError
from singerlake.format.state import fold
from singerlake.format.state.model import Manifest, SchemaVersion
from singerlake.upkeep.erase.declared import as_declared, doubt, names_in, similar

USER = {"type": ["null", "object"], "properties": {"id": {"type": "integer"}, "odd name": {"type": "string"}}}
FIRST = {
    "id": {"type": "integer"},
    "name": {"type": ["null", "string"]},
    "at": {"type": "string", "format": "date-time"},
    "price": {"type": "string", "format": "singer.decimal", "precision": 9, "scale": 2},
    "day": {"type": "string", "format": "date"},
    "on": {"type": "boolean"},
    "user": USER,
    "tags": {"type": "array", "items": {"type": "string"}},
    "phones": {"type": "array", "items": {"$ref": "#/definitions/phone"}},
    "open": {"type": "object"},
    "any": {},
    "either": {"type": ["integer", "string"]},
}
PHONE = {"phone": {"type": "object", "properties": {"number": {"type": "string"}}}}
SECOND = {"id": {"type": ["null", "number"]}, "Name": {"type": "string"}, "no": {"type": "integer"}}


def manifest(*schemas: Any) -> Manifest:
    birth = fold.empty(tap="t", stream="s", store="lockfile", lineage="l", created="", transaction_id="x")
    versions = {f"h{number}": f"v{number}" for number in range(1, len(schemas) + 1)}
    held = {
        version: SchemaVersion(schema=schema, key_properties=(), bookmark_properties=(), first_offset=0, first_seen="")
        for version, schema in zip(versions, schemas, strict=True)
    }
    return msgspec.structs.replace(birth, versions=versions, schemas=held)


STREAM = manifest({"properties": FIRST, "definitions": PHONE}, {"properties": SECOND})


def of(text: str, stream: Manifest = STREAM) -> SingerlakeError | None:
    return doubt(parse_condition(text, lambda _: "1\ntwo\n"), stream)


@pytest.mark.parametrize(
    "text",
    [
        "id = 1",
        "id = 1.5",
        "name = 'x' and no = 3",
        "at = '2026'",
        "price = '1.50'",
        "price = 1.5",
        "price >= 1.5 and price < 2",
        "at >= '2026-01-01T00:00:00+02:00'",
        "day < '2026-01-01'",
        "name < 'x' and id != 3 and no not in (1, 2)",
        "on < true",
        "name null and user is not null and tags null",
        "phones[*].number null",
        "either < 3",
        "on = true",
        "user.id = 5",
        "user.\"odd name\" = 'x'",
        "tags[*] = 'x'",
        "phones[*].number = 'x'",
        "open.what.ever = 1",
        "any = 1",
        "any[*].x = 'x'",
        "either in (1, 'one')",
        "name in @values",
    ],
)
def test_what_some_version_declares_can_hold(text: str) -> None:
    assert of(text) is None


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("nme = 'x'", "declares 'nme'", "did you mean 'name', declared by v1?"),
        ("NO = 1", "declares 'NO'", "did you mean 'no', declared by v2?"),
        ("user.ids = 1", "declares 'user.ids'", "did you mean 'user.id', declared by v1?"),
        ("tags[*].x = 1", "declares 'tags[*].x'", "did you mean 'tags[*]', declared by v1?"),
        ("zzz = 1", "declares 'zzz'", "v2 declares id, Name, no; v1 declares id, name, at, price"),
        ("id = '1'", "'id' is compared with text, and is declared as integer by v1; as number by v2", "without quotes"),
        ("name = 1", "'name' is compared with a number, and is declared as string by v1", "in quotes"),
        ("id = true", "'id' is compared with true or false", "correct the value"),
        (
            "at < '2026'",
            "'at' is compared with text, and is declared as string",
            "write a time as '2026-01-31T00:00:00Z'",
        ),
        ("day >= 'monday'", "'day' is compared with text", "or a date as '2026-01-31'"),
        ("price < '10'", "'price' is compared with text", "without quotes"),
        ("either < 'x'", "'either' is compared with text, and is declared as any type", "how its texts are ordered"),
        ("name > 1", "'name' is compared with a number", "in quotes"),
        ("id != 'x'", "'id' is compared with text", "without quotes"),
        ("id not in (1, 'x')", "'id' is compared with text", "without quotes"),
        ("nme null", "declares 'nme'", "did you mean 'name', declared by v1?"),
        ("user.ids is not null", "declares 'user.ids'", "did you mean 'user.id', declared by v1?"),
        ("no in (1, 'two')", "'no' is compared with text", "without quotes"),
        ("no in @values", "'no' is compared with text", "without quotes"),
        ("user = 'x'", "declared as object by v1", "name what is in it"),
        ("tags = 'x'", "declared as array by v1", "name what is in it"),
        ("id = 1 and nme = 'x'", "declares 'nme'", "did you mean"),
    ],
)
def test_a_condition_that_cannot_hold_says_what_the_versions_declare(text: str, says: str, hint: str) -> None:
    error = of(text)
    assert error is not None
    assert says in error.message
    assert hint in str(error.hint)
    assert "give --undeclared" in str(error.hint)


def test_no_value_is_in_an_error() -> None:
    for text in ("id = 'secret'", "nme = 'secret'", "id in ('secret', 1)"):
        assert "secret" not in str(of(text))


@pytest.mark.parametrize(
    "schema",
    [
        True,
        {},
        {"type": "object"},
        {"properties": {}},
        {"properties": {"id": {}}, "additionalProperties": {"type": "string"}},
        {"properties": {"id": {}}, "patternProperties": {"^x": {}}},
        {"properties": {"id": {}}, "allOf": [{"properties": {"nme": {}}}]},
        {"$ref": "#/definitions/a", "definitions": {"a": {"properties": {"nme": {}}}}},
    ],
)
def test_a_version_that_leaves_the_names_open_takes_all(schema: Any) -> None:
    assert of("nme = 'x'", manifest(schema)) is None


def test_a_stream_without_versions_and_one_whose_schema_is_gone_may_hold_anything() -> None:
    assert of("nme = 'x'", manifest()) is None
    for lost in STREAM.schemas:
        left = {version: held for version, held in STREAM.schemas.items() if version != lost}
        assert of("nme = 'x'", msgspec.structs.replace(STREAM, schemas=left)) is None


def test_each_version_that_declares_it_is_named() -> None:
    name = {"properties": {"name": {"type": "string"}}}
    stream = manifest(name, {"properties": {"name": {"type": "integer"}}}, {"properties": {"id": {}}}, name)
    assert "is declared as string by v1, v4; as integer by v2" in str(of("name = true", stream))
    assert "did you mean 'name', declared by v1, v2, v4?" in str(of("nam = 'x'", stream))


def test_many_properties_are_not_all_named() -> None:
    error = of("zzz = 1", manifest({"properties": {f"p{number}": {} for number in range(400)}}))
    assert error is not None
    assert "p11, 388 more" in str(error.hint)


TIME, TEXT, DECIMAL = {"type": "string", "format": "date-time"}, {"type": "string"}, FIRST["price"]


@pytest.mark.parametrize(
    ("declared", "reading"),
    [
        ([TIME], "time"),
        ([TIME, {"type": ["null", "string"], "format": "date-time"}], "time"),
        ([TIME, TEXT], "text"),
        ([TIME, {"type": "integer"}], "time"),
        ([{"type": "string", "format": "date"}], "date"),
        ([{"type": "string", "format": "date"}, TIME], "text"),
        ([DECIMAL], "number"),
        ([DECIMAL, TEXT], "text"),
        ([{"type": "number"}], "text"),
        ([{}], "text"),
        ([], "text"),
    ],
)
@pytest.mark.parametrize("path", ["x", "x.y", "x[*]"])
def test_a_text_is_compared_as_what_the_versions_declare_it_to_be(declared: list[Any], reading: str, path: str) -> None:
    def of(schema: Any) -> Any:
        below = {"x.y": {"type": "object", "properties": {"y": schema}}, "x[*]": {"type": "array", "items": schema}}
        return {"properties": {"x": below.get(path, schema), "other": {"type": "integer"}}}

    (test,) = as_declared(parse_condition(f"{path} = 'a'", str), manifest(*map(of, declared))).tests
    assert test.reading == reading


@pytest.mark.parametrize(
    ("condition", "names", "found"),
    [
        ("email = 'a'", ("email",), ("contact_email", "user.eMail", "mails[*].email")),
        (
            "email = 'a' and user.eMail = 'b'",
            ("email", "user.eMail"),
            ("contact_email", "user.eMail", "mails[*].email"),
        ),
        ("nothing = 1", ("nothing",), ()),
    ],
)
def test_properties_of_similar_names_are_found(condition: str, names: tuple[str, ...], found: tuple[str, ...]) -> None:
    text = {"type": "string"}
    user = {"type": "object", "properties": {"eMail": text}}
    mails = {"type": "array", "items": {"type": "object", "properties": {"email": text}}}
    schema = {"properties": {"id": text, "contact_email": text, "user": user, "mails": mails}}
    where = parse_where(condition)
    assert (names_in(where), similar(where, manifest(schema))) == (names, found)

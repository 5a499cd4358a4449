"""``validate_records`` takes each schema and each number as the tap wrote it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from singerlake.errors import InvalidSchemaError, SingerlakeError
from target_singerlake.errors import RecordAgainstSchemaError
from tests.target.support import ingest, kept

DRAFT = "http://json-schema.org/draft-0{}/schema#"


def check(folder: Path, declared: str, value: str, **more: str) -> None:
    """Run the target over one record of a property ``x``, all of it JSON; it is kept as it came."""
    said = "".join(f',"{name}":"{text}"' for name, text in more.items())
    record = f'{{"type":"RECORD","stream":"s","record":{{"x":{value}}}}}'.encode()
    schema = f'{{"type":"SCHEMA","stream":"s","schema":{{"properties":{{"x":{declared}}}{said}}}}}'.encode()
    ingest(folder, [schema, record], validate_records=True)
    assert kept(folder, "s")[-1] == record


@pytest.mark.parametrize(
    ("declared", "good", "bad"),
    [
        (
            '{"type":"number","multipleOf":0.01}',
            ["1.25", "-1.250", "0.00", "3", "1e999999999"],
            ["1.255", "1e-999999999"],
        ),
        ('{"multipleOf":1e-10}', ["12345678901234567890.1234567891"], ["12345678901234567890.12345678915"]),
        ('{"multipleOf":3}', ["1.20e31", '"text"'], ["1.0e31", "NaN", "-Infinity"]),
        ('{"multipleOf":2.5}', [f"1{'0' * 4_000}", f"5.{'0' * 5_000}"], [f"2.{'5' * 5_000}"]),
        ('{"minimum":0.1}', ["0.1", "NaN"], ["0.09"]),
        ('{"exclusiveMaximum":0.1}', ["0.09"], ["0.1"]),
        ('{"maximum":99999999999999999999.99}', ["99999999999999999999.99"], ["99999999999999999999.995"]),
        ('{"enum":[0.1,"a"]}', ["0.10"], ["0.11"]),
        ('{"type":"integer"}', ["1", "1.0", "1e2"], ["1.5", "true", "1e-2", "NaN"]),
        ('{"type":"array","uniqueItems":true}', ['[NaN,1.5,"x"]'], ['[1.5,1.50,"x"]']),
    ],
)
def test_numbers_have_all_their_digits(tmp_path: Path, declared: str, good: list[str], bad: list[str]) -> None:
    for value in good:
        check(tmp_path, declared, value)
    for value in bad:
        with pytest.raises(RecordAgainstSchemaError, match="does not match"):
            check(tmp_path, declared, value)


@pytest.mark.parametrize(
    ("said", "declared", "good", "bad"),
    [
        (None, '{"maximum":5,"exclusiveMaximum":true}', "4", "5"),
        (None, '{"items":[{"type":"string"}]}', '["a"]', "[1]"),
        (DRAFT.format(4), '{"maximum":5,"exclusiveMaximum":true,"multipleOf":0.5}', "4.5", "5"),
        (DRAFT.format(4), '{"type":"integer"}', "1", "1.0"),
        (DRAFT.format(3), '{"type":"any","divisibleBy":0.01}', "1.25", "1.255"),
        (DRAFT.format(7).rstrip("#"), '{"const":0.1}', "0.1", "0.2"),
        ("https://example.com/schema", '{"maximum":5,"exclusiveMaximum":true}', "4", "5"),
    ],
)
def test_a_schema_is_of_the_draft_that_it_says_or_fits(
    tmp_path: Path, said: str | None, declared: str, good: str, bad: str
) -> None:
    more = {} if said is None else {"$schema": said}
    check(tmp_path, declared, good, **more)
    with pytest.raises(RecordAgainstSchemaError):
        check(tmp_path, declared, bad, **more)


def test_a_draft_within_a_schema_changes_nothing(tmp_path: Path) -> None:
    check(tmp_path, f'{{"$schema":"{DRAFT.format(7)}","multipleOf":0.01}}', "1.25")


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^\p{Lu}", "Ägypten", "ägypten"),
        (r"^[\w-\.]+$", "a-b.c", "a b"),
        (r"^(?<year>\d{4})-\k<year>$", "2026-2026", "2026-2027"),
        (r"^\d$", "3", "٣"),
        ("^a$", "a", "a\n"),
        ("^[^]$", "\n", ""),
        ("^.$", "\ud800", "ab"),
    ],
)
def test_a_pattern_is_one_of_ecma_262(tmp_path: Path, pattern: str, good: str, bad: str) -> None:
    text = json.dumps(pattern)
    for declared, shown in (
        (f'{{"pattern":{text}}}', "{}"),
        (f'{{"patternProperties":{{{text}:{{"type":"integer"}}}},"additionalProperties":false}}', "{{{}:1}}"),
        (
            f'{{"properties":{{"ok":{{}}}},"patternProperties":{{{text}:true}},"additionalProperties":{{"not":{{}}}}}}',
            "{{{}:1}}",
        ),
    ):
        check(tmp_path, declared, shown.format(json.dumps(good)))
        with pytest.raises(RecordAgainstSchemaError):
            check(tmp_path, declared, shown.format(json.dumps(bad)))
    check(tmp_path, f'{{"patternProperties":{{{text}:{{"multipleOf":0.5}}}}}}', f"{{{json.dumps(good)}:1.5}}")


@pytest.mark.parametrize(
    ("declared", "said", "message", "context"),
    [
        ('{"pattern":"("}', {}, "a pattern is not a", {"at": "properties.x.pattern", "pattern": "("}),
        ('{"patternProperties":{"[":{}}}', {"$schema": DRAFT.format(4)}, "a pattern is not a", {"pattern": "["}),
        ('{"minLength":"2"}', {}, "a schema is not valid", {"at": "properties.x.minLength", "rule": "type"}),
        ('{"type":"strnig"}', {}, "a schema is not valid", {"at": "properties.x.type", "rule": "anyOf"}),
        (
            '{"maximum":5,"exclusiveMaximum":true}',
            {"$schema": DRAFT.format(7)},
            "a schema is not valid",
            {"at": "properties.x.exclusiveMaximum", "rule": "type"},
        ),
        ('{"type":"strnig"}', {"$schema": DRAFT.format(3)}, "a schema cannot be validated with", {}),
        ('{"$ref":5}', {"$schema": DRAFT.format(4)}, "a schema cannot be validated with", {}),
        ('{"$ref":"http://["}', {}, "a schema refers to", {"ref": "http://["}),
        (
            '{"patternProperties":{"\\\\p{Lu}":{}},"unevaluatedProperties":false}',
            {},
            "a schema cannot be validated with",
            {},
        ),
        ('{"$ref":"#/definitions/none"}', {}, "a schema refers to", {"ref": "/definitions/none"}),
    ],
)
def test_a_schema_that_cannot_be_used_is_named(
    tmp_path: Path, declared: str, said: dict[str, str], message: str, context: dict[str, str]
) -> None:
    with pytest.raises(InvalidSchemaError, match=message) as raised:
        check(tmp_path, declared, '{"b":"secret"}', **said)
    assert raised.value.context == {"line": 2, "stream": "s", **context}
    assert "secret" not in str(raised.value)


def test_nothing_is_fetched_for_a_reference(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text('{"type":"integer"}')
    with pytest.raises(SingerlakeError, match="nothing is fetched"):
        check(tmp_path / "lake", f'{{"$ref":"{(tmp_path / "other.json").as_uri()}"}}', "1")

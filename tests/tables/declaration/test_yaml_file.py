"""``projections.yml``: what it means, and what each mistake in it says."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from singerlake.errors import SettingError
from singerlake.tables.declaration.model import Action, Format, Keep, NullKeys
from singerlake.tables.declaration.streams import Declared
from singerlake.tables.declaration.yaml_file import KEYS, TableFile, read_file

WHOLE = """\
lake_root: ${ROOT}/of/$NAME
tables:
  flights:
    from: tap-postgres.public-flights
    keep: history
    key: [id]
    order_by: [updated_at]
    sort_by: [time_hour, id]
    partition_by: [month(time_hour), carrier]
    columns: {tailnum: {rename: tail_number}, notes: {drop: true}, arr_delay: {cast: double}}
    checks:
      id: [not_null, unique]
      distance: ["> 0", {"< 5000": drop}]
      carrier: {"in ('AA', 'UA')": warn}
    on_check_failure: fail
    format: parquet
    metadata: true
    deleted_when: op = 'D'
    null_keys: drop
"""


def read(tmp_path: Path, text: str | bytes, **environment: str) -> TableFile:
    path = tmp_path / "projections.yml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_file(path, environment)


def refused(tmp_path: Path, text: str | bytes, **environment: str) -> SettingError:
    with pytest.raises(SettingError) as caught:
        read(tmp_path, text, **environment)
    assert caught.value.context["file"] == str(tmp_path / "projections.yml")
    return caught.value


def table(tmp_path: Path, body: str) -> Declared:
    (made,) = read(tmp_path, f"tables:\n  t:\n    from: a.b\n    {body}\n").tables
    return made


def test_every_key_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE, ROOT="s3://bucket", NAME="prefix")
    assert found.lake_root == "s3://bucket/of/prefix"
    (declared,) = found.tables
    made = declared.template
    assert (declared.name, declared.source, declared.is_pattern) == ("flights", "tap-postgres.public-flights", False)
    assert (made.keep, made.key, made.order_by, made.sort_by) == (
        Keep.HISTORY,
        ("id",),
        ("updated_at",),
        ("time_hour", "id"),
    )
    assert [str(each) for each in made.partition_by] == ["month(time_hour)", "carrier"]
    assert (made.rule("tailnum").rename, made.rule("notes").drop, made.rule("arr_delay").cast) == (
        "tail_number",
        True,
        "double",
    )
    assert [(check.column, check.text, check.condition is None, check.action) for check in made.checks] == [
        ("id", "not_null", False, Action.FAIL),
        ("id", "unique", True, Action.FAIL),
        ("distance", "> 0", False, Action.FAIL),
        ("distance", "< 5000", False, Action.DROP),
        ("carrier", "in ('AA', 'UA')", False, Action.WARN),
    ]
    assert (made.format, made.metadata, str(made.deleted_when), made.null_keys) == (
        Format.PARQUET,
        True,
        "op = 'D'",
        NullKeys.DROP,
    )


def test_a_condition_takes_the_values_of_a_file_beside_its_own(tmp_path: Path) -> None:
    (tmp_path / "codes.txt").write_text("AA\n7\n")
    made = table(
        tmp_path, 'checks: {n: ["in @codes.txt", {"= \\"x\\"": warn}]}\n    deleted_when: op not in @codes.txt'
    ).template
    assert [check.name for check in made.checks] == ["n in @codes.txt", 'n = "x"']
    kept = made.to_json()
    assert kept["checks"] == [["n", "in ('AA', '7', 7)", "fail"], ["n", "= 'x'", "warn"]]
    assert kept["deleted_when"] == "op not in ('AA', '7', 7)"
    error = refused(tmp_path, T + "checks: {n: 'in @none.txt'}")
    assert "cannot read 'none.txt': no such file or directory" in error.message
    assert error.context["line"] == 4


def test_what_is_left_out_has_its_default(tmp_path: Path) -> None:
    made = table(tmp_path, "")
    assert (made.template.keep, made.template.key, made.keep_by_key) == (Keep.LATEST, None, True)
    assert (made.template.checks, made.template.metadata, made.template.null_keys) == ((), False, NullKeys.FAIL)


def test_one_name_needs_no_list(tmp_path: Path) -> None:
    assert table(tmp_path, "key: id").template.key == ("id",)
    assert table(tmp_path, 'checks: {n: "> 0"}').template.checks[0].text == "> 0"


def test_a_table_says_what_becomes_of_rows_that_checks_do_not_hold_for(tmp_path: Path) -> None:
    made = table(tmp_path, "on_check_failure: warn\n    checks: {n: ['> 0', {not_null: fail}]}")
    assert [check.action for check in made.template.checks] == [Action.WARN, Action.FAIL]


def test_tap_and_stream_may_be_named_apart(tmp_path: Path) -> None:
    (made,) = read(tmp_path, "tables: {'t_*': {from: {tap: a.b, stream: 'c*'}}}").tables
    assert (made.source, made.is_pattern, made.source_text) == (("a.b", "c*"), True, "a.b.c*")


def test_an_alias_stands_for_what_it_names(tmp_path: Path) -> None:
    text = "tables:\n  a: {from: t.a, columns: &common {x: {drop: true}}}\n  b: {from: t.b, columns: *common}\n"
    assert [each.template.rule("x").drop for each in read(tmp_path, text).tables] == [True, True]


def test_a_relative_lake_root_begins_at_the_file(tmp_path: Path) -> None:
    assert read(tmp_path, "lake_root: lake").lake_root == str(tmp_path / "lake")
    assert read(tmp_path, "lake_root: $R", R="/data/lake").lake_root == "/data/lake"
    assert read(tmp_path, "lake_root: s3://b/p").lake_root == "s3://b/p"
    assert read(tmp_path, "tables: {}").lake_root is None


def test_a_byte_order_mark_and_dos_lines_are_read(tmp_path: Path) -> None:
    (made,) = read(tmp_path, b"\xef\xbb\xbftables:\r\n  t:\r\n    from: a.b\r\n").tables
    assert made.name == "t"


def test_names_in_quotes_may_look_like_anything(tmp_path: Path) -> None:
    (made,) = read(tmp_path, 'tables: {"no": {from: a.b, key: ["1", "2026-01-01", "null"]}}').tables
    assert (made.name, made.template.key) == ("no", ("1", "2026-01-01", "null"))


def test_a_declared_name_knows_its_line(tmp_path: Path) -> None:
    (made,) = read(tmp_path, WHOLE, ROOT="/r", NAME="n").tables
    file = str(tmp_path / "projections.yml")
    assert made.template.at("columns", "notes") == {"file": file, "line": 10}
    assert made.template.at("checks", "distance") == {"file": file, "line": 13}
    assert made.template.at("key", "id") == {"file": file, "line": 6}
    assert made.template.at("keep") == {"file": file, "line": 5}
    assert made.template.at() == {"file": file, "line": 4}


T = "tables:\n  t:\n    from: a.b\n    "
MISTAKES: dict[str, tuple[str | bytes, int, str, str]] = {
    "empty": ("", 1, "the file is empty", "tables:"),
    "only-a-comment": ("# nothing\n", 1, "the file is empty", "tables:"),
    "a-list": ("- a\n", 1, "the file is a list", "name: value"),
    "a-text": ("tables\n", 1, "the file is a single value", "name: value"),
    "unknown-key": ("lake_rot: x\n", 1, "has no key 'lake_rot'", "did you mean 'lake_root'?"),
    "unknown-table-key": (T + "ordr_by: [x]", 4, "tables.t has no key 'ordr_by'", "did you mean 'order_by'?"),
    "far-from-any-key": (T + "zzz: 1", 4, "tables.t has no key 'zzz'", "it knows: from, sql"),
    "unknown-column-key": (T + "columns: {x: {drp: true}}", 4, "tables.t.columns.x has no key 'drp'", "'drop'"),
    "duplicate-table": ("tables:\n  t: {from: a.b}\n  t: {from: a.c}\n", 3, "tables has 't' twice", "line 2"),
    "duplicate-key": (T + "key: [a]\n    key: [b]", 5, "tables.t has 'key' twice", "remove one"),
    "table-without-anything": ("tables:\n  t:\n", 2, "tables.t is empty, and has to be a mapping", "below"),
    "table-is-a-list": ("tables:\n  t: [a]\n", 2, "tables.t is a list", "below"),
    "tables-is-a-list": ("tables: [a]\n", 1, "tables is a list", "below"),
    "no-from": ("tables: {t: {keep: latest}}", 1, "tables.t does not say what it is made from", "from: tap.stream"),
    "from-without-dot": ("tables: {t: {from: flights}}", 1, "which names no stream", "tap.stream"),
    "from-without-stream": ("tables: {t: {from: {tap: a}}}", 1, "tables.t.from names no stream", "stream: ..."),
    "from-is-a-list": ("tables: {t: {from: [a.b]}}", 1, "tables.t.from is a list", "one name"),
    "number-as-name": (T + "key: [1]", 4, "tables.t.key is 1, which YAML reads as a number", "in quotes"),
    "no-as-name": (T + "key: [no]", 4, "tables.t.key is no, which YAML reads as a boolean", "in quotes"),
    "on-as-key": (T + "columns: {on: {drop: true}}", 4, "is on, which YAML reads as a boolean", "in quotes"),
    "date-as-name": (T + "key: [2026-01-01]", 4, "which YAML reads as a date", "in quotes"),
    "null-as-name": (T + "key: [~]", 4, "tables.t.key is empty, and has to be text", "one name"),
    "python-tag": (T + "key: [!!python/name:os.system x]", 4, "which YAML reads as a python/name", "in quotes"),
    "empty-text": (T + "key: ['']", 4, "tables.t.key is empty", "one name"),
    "empty-list": (T + "key: []", 4, "tables.t.key is an empty list", "remove the key"),
    "key-behind-nothing": (T + "key:", 4, "tables.t.key is empty, and has to be a list", "[one, two]"),
    "twice-in-a-list": (T + "key: [a, a]", 4, "tables.t.key names 'a' twice", "remove one"),
    "wrong-keep": (T + "keep: lates", 4, "tables.t.keep is 'lates'", "did you mean 'latest'?"),
    "wrong-action": (T + "checks: {a: [{not_null: ignore}]}", 4, "is 'ignore'", "fail, drop, warn"),
    "wrong-default-action": (T + "checks: {a: unique}\n    on_check_failure: wrn", 5, "is 'wrn'", "'warn'"),
    "action-without-checks": (T + "on_check_failure: warn", 4, "without checks", "add 'checks'"),
    "wrong-null-keys": (T + "null_keys: warn", 4, "tables.t.null_keys is 'warn'", "fail, drop"),
    "key-of-append": (T + "keep: append\n    key: [a]", 5, "keeps append, where 'key' means nothing", "remove 'key'"),
    "metadata-is-text": (T + "metadata: 'true'", 4, "has to be true or false", "write true or false"),
    "flag-of-a-list": (T + "metadata: !!bool [true]", 4, "metadata is a list", "write true or false"),
    "flag-of-a-mapping": (T + "metadata: !!bool {true: true}", 4, "metadata is a mapping", "write true or false"),
    "flag-of-another-word": (T + "metadata: !!bool maybe", 4, "has to be true or false", "write true or false"),
    "empty-flag-of-a-list": (T + "metadata: !!null []", 4, "metadata is a list", "write true or false"),
    "text-of-a-list": (T + "keep: !!str [latest]", 4, "tables.t.keep is a list", "one name"),
    "list-of-another-kind": (T + "key: !!omap [a]", 4, "tables.t.key has the tag 'omap'", "remove the tag"),
    "list-that-says-mapping": (T + "columns: !!map [a]", 4, "tables.t.columns is a list", "below"),
    "set": (T + "columns: !!set {a, b}", 4, "tables.t.columns has the tag 'set'", "remove the tag"),
    "tag-of-ones-own": (T + "columns: !rules {a: {drop: true}}", 4, "has the tag '!rules'", "remove the tag"),
    "wrong-condition": (T + "checks: {a: ['~ 3']}", 4, "condition, from character 1 on", "for example"),
    "wrong-condition-with-action": (
        T + "checks: {a: {'~ 3': warn}}",
        4,
        "not a condition, from character 1 on",
        "for example",
    ),
    "unique-that-drops": (T + "checks: {a: {unique: drop}}", 4, "'unique' cannot drop rows", "fail or warn"),
    "wrong-deletion": (T + "deleted_when: op", 4, "not a condition, from character 3 on", "for example"),
    "wrong-partition": (T + "partition_by: [week(a)]", 4, "partition_by knows no 'week(a)'", "month(column)"),
    "rule-without-anything": (T + "columns: {a: {}}", 4, "tables.t.columns.a says nothing", "rename, drop, cast"),
    "drop-and-rename": (T + "columns: {a: {drop: true, rename: b}}", 4, "drops the column and says more", "remove"),
    "rename-to-no-text": (T + 'columns: {a: {rename: "\\uD800"}}', 4, "holds a lone surrogate", "remove it"),
    "key-of-no-text": (T + 'key: ["\\uD800"]', 4, "holds a lone surrogate", "remove it"),
    "condition-of-no-text": (T + "checks: {a: \"= '\\uD800'\"}", 4, "holds a lone surrogate", "remove it"),
    "sql-and-from": (
        "tables:\n  t:\n    sql: SELECT 1\n    from: a.b",
        4,
        "by a statement, where 'from'",
        "in the statement",
    ),
    "sql-and-columns": (
        "tables: {t: {sql: SELECT 1, columns: {a: {drop: true}}}}",
        1,
        "'columns' means nothing",
        "rename",
    ),
    "sql-and-keep": ("tables: {t: {sql: SELECT 1, keep: latest}}", 1, "'keep' means nothing", "writes all rows anew"),
    "sql-of-many": ("tables: {'t_*': {sql: SELECT 1}}", 1, "is one table", "without *"),
    "no-query": ("tables:\n  t: {sql: /* now */ DROP TABLE x}", 2, "begins with 'DROP' is not a query", "one SELECT"),
    "no-statement": ("tables: {t: {sql: '-- SELECT 1'}}", 1, "begins with '' is not a query", "one SELECT"),
    "formulas-of-parquet": (T + "csv_formulas: escape", 4, "tables.t is not csv", "add 'format: csv'"),
    "deletions-of-history": (T + "keep: history\n    deletions: soft", 5, "keeps history", "remove 'deletions'"),
    "wrong-deletions": (T + "deletions: maybe", 4, "deletions is 'maybe'", "hard, soft"),
    "wrong-formulas": (T + "format: csv\n    csv_formulas: no-such", 5, "csv_formulas is 'no-such'", "keep, escape"),
    "also-of-csv": (
        T + "format: csv\n    also: iceberg",
        5,
        "describes parquet files, and the format is csv",
        "remove",
    ),
    "wrong-also": (T + "also: [icebrg]", 4, "is 'icebrg'", "did you mean 'iceberg'?"),
    "empty-also": (T + "also: []", 4, "tables.t.also is an empty list", "remove the key"),
    "wrong-format": (T + "format: parqet", 4, "tables.t.format is 'parqet'", "did you mean 'parquet'?"),
    "merge-key": ("tables:\n  a: &a {from: t.a}\n  b: {<<: *a}\n", 3, "tables.b has '<<'", "alias"),
    "tab": ("tables:\n\tt: 1\n", 2, "not YAML", "indent with spaces"),
    "unclosed": ("tables: {t: [\n", 2, "not YAML", "the one before it"),
    "two-documents": ("tables: {}\n---\ntables: {}\n", 2, "not YAML: but found another document", "correct"),
    "undefined-alias": ("tables: *x\n", 1, "not YAML: found undefined alias", "correct"),
    "control-character": ("tables:\n  a\x00b: 1\n", 2, "a character that YAML does not allow", "remove it"),
    "escape-too-large": ('tables: {"\\UFFFFFFFF": {}}', 1, "not YAML: a number in it is too large", "escapes"),
    "version-too-large": ("%YAML " + "9" * 5000 + ".1\n---\na", 1, "not YAML: a number in it is too large", "%YAML"),
    "latin-1": ("tables:\n  t: {from: a.ü}\n".encode("latin-1"), 2, "not UTF-8", "save the file as UTF-8"),
    "utf-16": ("tables: {}".encode("utf-16"), 1, "the file is UTF-16", "save it as UTF-8"),
    "too-deep": ("tables: " + "[" * 5000, 1, "nested deeper than 20 levels", "more simply"),
    "too-large": ("#" * (1 << 20) + "\n", 1, "larger than 1.0 MB", "the file that declares tables"),
    "alias-of-itself": ("tables: &a {t: *a}\n", 1, "an alias stands within what it stands for", "remove"),
    "name-too-long": (f"tables: {{{'x' * 200}: {{from: a.b}}}}", 1, "table name takes 200 bytes", "a shorter name"),
    "lake-root-is-a-number": ("lake_root: 7\n", 1, "lake_root is 7, which YAML reads as a number", "in quotes"),
    "lake-root-of-another-kind": ("lake_root: r2://b\n", 1, "lake_root has an unknown scheme", "s3://"),
    "variable-unset": ("\nlake_root: $NOWHERE\n", 2, "lake_root names $NOWHERE, which is not set", "set $NOWHERE"),
    "variable-empty": ("lake_root: ${EMPTY}/x\n", 1, "lake_root names $EMPTY, which is not set", "set $EMPTY"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_says_where_it_is_and_what_was_meant(tmp_path: Path, name: str) -> None:
    text, line, message, hint = MISTAKES[name]
    error = refused(tmp_path, text, EMPTY="")
    assert (error.context["line"], message in error.message, hint in error.hint) == (line, True, True), str(error)
    assert error.message[0].islower()


def test_aliases_that_unfold_without_end_are_refused_at_once(tmp_path: Path) -> None:
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40)]
    error = refused(tmp_path, "\n".join(levels))
    assert "more than 100,000 values, aliases counted" in error.message


def test_a_secret_in_lake_root_is_not_shown(tmp_path: Path) -> None:
    error = refused(tmp_path, "lake_root: s3://key:hush@bucket/p")
    assert "hush" not in str(error)
    assert "hush" not in str(refused(tmp_path, "lake_root: $R", R="s3://key:hush@bucket/p"))


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.dates(),
    st.text(max_size=8),
    st.sampled_from(["a.b", "> 0"]),
)
NAMES = st.one_of(st.sampled_from([*KEYS, "tables", "lake_root", "rename", "drop", "cast", "tap", "stream"]), SCALARS)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=12,
)
TABLE = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=5).map(lambda table: {"from": "a.b", **table})
FILES = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.text("tables:{}[],&*!|>-#'\" \n\ta", max_size=60).map(str.encode),
    VALUES.map(lambda value: yaml.safe_dump(value, allow_unicode=True).encode("utf-8", "surrogatepass")),
    st.dictionaries(NAMES, st.one_of(TABLE, VALUES), max_size=3).map(
        lambda it: yaml.safe_dump({"tables": it}).encode()
    ),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=FILES)
def test_any_file_is_read_or_refused_with_its_line(tmp_path: Path, body: bytes) -> None:
    found = outcome(tmp_path, body)
    if isinstance(found, SettingError):
        assert found.context["file"] == str(tmp_path / "projections.yml")
        assert 1 <= int(str(found.context["line"])) <= len(body) + 1
        assert found.hint
    else:
        assert all(isinstance(each, Declared) for each in found.tables)


def outcome(tmp_path: Path, body: bytes) -> TableFile | SettingError:
    try:
        return read(tmp_path, body, HOME="/home")
    except SettingError as error:
        return error


@pytest.mark.parametrize(("make", "message"), [(Path.mkdir, "is a folder"), (lambda path: None, "is not there")])
def test_what_is_no_file_is_said_to_be_none(tmp_path: Path, make: object, message: str) -> None:
    assert callable(make)
    make(tmp_path / "x.yml")
    with pytest.raises(SettingError, match=message):
        read_file(tmp_path / "x.yml", {})

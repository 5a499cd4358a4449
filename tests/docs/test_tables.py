"""The reference of tables names every key, word and type that there is, and no other; its example is read."""

from __future__ import annotations

import re
from pathlib import Path

from singerlake.conditions import condition_of, parse_condition
from singerlake.tables.declaration.model import ICEBERG, Action, Format, Formulas, Keep, NullKeys
from singerlake.tables.declaration.yaml_file import KEYS, read_file
from singerlake.tables.state.types import SIMPLE
from singerlake.tables.tasks.files import FORMATS
from tests.docs.readme import blocks

PAGE = Path(__file__).parents[2] / "docs/reference/tables.md"
TEXT = PAGE.read_text()


def rows(heading: str, text: str = TEXT) -> dict[str, str]:
    """The first cell of each row below a heading, and the rest."""
    part = text.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    return dict(re.findall(r"^\| (`.*?) \| (.*) \|$", part, re.MULTILINE))


def test_every_key_of_a_table_is_there() -> None:
    assert [key.strip("`") for key in rows("A table")] == list(KEYS)


def test_every_word_is_there() -> None:
    told = rows("A table")
    for key, words in (
        ("`keep`", Keep),
        ("`on_check_failure`", Action),
        ("`null_keys`", NullKeys),
        ("`csv_formulas`", Formulas),
    ):
        for word in words:
            assert f"`{word.value}`" in told[key], word
    for each in Format:
        assert (f"`{each.value}`" in told["`format`"]) == (each in FORMATS), each
    for name in (Format.DELTA.value, ICEBERG):
        assert f"`{name}`" in told["`also`"]


def test_every_type_is_there() -> None:
    listed = TEXT.partition("Types of `cast` are")[2].partition(". ")[0]
    assert set(re.findall(r"`(\w+)", listed)) == {
        *SIMPLE,
        "decimal",
    }


def test_every_condition_that_is_shown_is_one() -> None:
    page = PAGE.with_name("conditions.md").read_text().partition("\nA value is ")[0].replace("# C", "## C", 1)
    conditions = [text for cell in rows("Conditions", page) for text in re.findall(r"`([^`]+)`", cell)]
    assert len(conditions) >= 13
    for text in conditions:
        condition_of(text, lambda _: "AA")
        parse_condition(f"a {text.replace('and', 'and a')}", lambda _: "AA")


def test_the_example_is_read_and_has_every_key(tmp_path: Path) -> None:
    (example,) = [block.text for block in blocks(PAGE) if block.name == "projections.yml"]
    (tmp_path / "projections.yml").write_text(example)
    found = read_file(tmp_path / "projections.yml", {"LAKE_ROOT": "/lake"})
    assert (found.lake_root, [each.name for each in found.tables]) == ("/lake", ["flights", "pg_*", "late_by_carrier"])
    assert set(re.findall(r"^    (\w+):", example, re.MULTILINE)) == set(KEYS)


def test_the_short_example_is_read(tmp_path: Path) -> None:
    short = next(block.text for block in blocks(PAGE) if block.language == "yaml" and not block.name)
    (tmp_path / "projections.yml").write_text(short)
    found = read_file(tmp_path / "projections.yml", {})
    assert [each.name for each in found.tables] == ["orders", "order_log", "customers"]


def test_what_a_star_makes_is_what_the_page_shows() -> None:
    from singerlake.tables.declaration.model import TableDeclaration
    from singerlake.tables.declaration.streams import Declared, resolve

    part = TEXT.partition("## Several streams\n")[2]
    shown = re.findall(r'^\| `"(.+?)"` \| `"?(.+?)"?` \| `(.+?)`,? of (.+?) \| (.+?) \|$', part, re.MULTILINE)
    assert len(shown) == 3
    for name, source, stream, taps, tables in shown:
        lake = {tap: [stream] for tap in re.findall(r"`(.+?)`", taps)}
        declared = Declared(name=name, source=source, template=TableDeclaration(name=name, tap="", stream=""))
        made, failed = resolve([declared], lake)
        assert ([each.declaration.name for each in made], failed) == (re.findall(r"`(.+?)`", tables), [])

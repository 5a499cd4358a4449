"""The pages of tables: what they tell of each, where they lead, and that no table keeps the others from being told."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from singerlake.errors import AccessDeniedError, SettingError
from singerlake.site.build import INDEX
from singerlake.site.pages import ROWS
from singerlake.site.table_page import CHECKS
from singerlake.site.tree import LEVELS
from singerlake.tables.state.keys import PUBLISHED, state_key
from singerlake.tables.state.model import MadeFrom, TableRun
from tests.site.lakes import HOSTILE, SCHEMA, built, manifest, memory_lake, put, put_table, table
from tests.site.test_pages import LIMIT, Read, check
from tests.storage.memory import Step

PLACE = {"struct": [["street", "text"], ["geo", {"array": {"array": {"struct": [["lat", {"decimal": [9, 6]}]]}}}]]}


class Words(Read):
    """A page whose elements are apart, as they are seen."""

    def handle_data(self, data: str) -> None:
        super().handle_data(f" {data} ")


def said(html: str) -> str:
    return " ".join(Words(html).text.split())


def test_a_table_tells_what_it_is(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, manifest("shop", "orders", [SCHEMA], files=[{}, {}, {}]))
    run = TableRun(
        id="r", at="2025-12-31T21:00:00Z", kind="rebuild", stop=10, records=10, inserted=4, checks={"id > 0": 3}
    )
    declaration = {
        "order_by": ["at"],
        "partition_by": ["month(at)"],
        "checks": [["id", "not_null", "fail"], ["id", "> 0", "warn"]],
        "sql": "SELECT id\nFROM orders WHERE id < 9",
    }
    columns = {"id": "integer", "place": PLACE, "_rescued_data": "json"}
    put_table(lake, table("newest", "shop", "orders", columns, runs=(run,), declaration=declaration))
    done, pages = built(lake, tmp_path / "site")
    check(pages)
    assert done.troubles == ()
    page = Read(pages["tables/newest.html"])
    told = said(pages["tables/newest.html"])
    for words in (
        "Captured in shop / orders 29 2026-01-01 00:00 Published in this table 9 2025-12-31 21:00",
        "Behind 20 messages of its stream",
        "Last run 2025-12-31 21:00 UTC, 3 hours before this page",
        "Keeps latest",
        "Order of records at",
        "Folders month(at)",
        "SELECT id FROM orders WHERE id < 9",
        "id integer key",
        "place struct",
        "geo array of array of struct",
        "lat decimal(9, 6)",
        "id > 0 warn 3 rows failed id not_null fail held",
        "rebuild 0 to 10 10 4 0 0",
    ):
        assert words in told, (words, told)
    assert "../streams/shop/orders.html" in page.links
    assert "../../tables/newest.html" in Read(pages["streams/shop/orders.html"]).links
    for path in ("tables.html", "index.html"):
        listed = "newest of shop / orders check failed 2025-12-31 21:00 3 rows failed 0 0 B 20"
        assert listed in said(pages[path]), path


def test_a_lake_without_tables_has_no_page_of_them(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, manifest("shop", "orders"))
    _, pages = built(lake, tmp_path / "site")
    assert not any("tables" in path for path in pages)
    assert "Tables" not in Read(pages["index.html"]).text


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_breaks_out_of_a_page_or_a_folder(tmp_path: Path, name: str) -> None:
    lake = memory_lake()
    put(lake, manifest(name, name))
    declaration = {"checks": [[name, name, name]], "sql": name, "order_by": [name], "deleted_when": name, "keep": name}
    run = TableRun(id=name, at=name, kind=name, checks={f"{name} {name}": 2})
    columns = {name: {"struct": [[name, "text"], [name + name, {"array": "json"}]]}}
    put_table(lake, table(name, name, name, columns, key=(name,), runs=(run,), declaration=declaration))
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    (path,) = [path for path in pages if path.startswith("tables/")]
    assert re.fullmatch(r"tables/[a-z0-9_~-]+\.html", path)
    tags = {*Read(pages[path]).tags, *Read(pages["tables.html"]).tags}
    assert not {"img", "iframe", "object"} & tags
    assert Read(pages[path]).tags.count("script") == 1
    index = json.loads(pages[INDEX].removeprefix("const SINGERLAKE_INDEX = ").removesuffix(";\n"))
    assert index["tables"] == [[name, path, f"{name} {name}", [name]]]
    assert pages[INDEX].isascii()


def test_names_that_differ_by_case_alone_have_pages_of_their_own(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, manifest("t", "s"))
    put_table(lake, *(table(name, "t", "s") for name in ("Orders", "ORDERS", "orders", "2")))
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    assert len({path.casefold() for path in pages if path.startswith("tables/")}) == 4


def test_what_is_long_goes_on_on_further_pages_or_is_counted(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, manifest("t", "s"))
    columns: dict[str, Any] = {f"column_{n:05}": "text" for n in range(5000)}
    checks = [[f"column_{n:05}", "<" * 200, "warn"] for n in range(CHECKS + 7)]
    failing = TableRun(id="r", at="", kind="run", checks={f"column_{CHECKS + 3:05} {'<' * 200}": 1})
    declaration = {"checks": checks, "sql": "<" * 100_000, "order_by": list(columns)}
    put_table(lake, table("wide", "t", "s", columns, runs=(failing,) * 50, declaration=declaration))
    put_table(lake, *(table(f"t{n:04}", "t", "s") for n in range(ROWS)))
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    told = "".join(Read(html).text for path, html in pages.items() if path.startswith(("tables/wide", "columns/wide")))
    assert all(name in told for name in columns)
    assert f"column_{CHECKS + 3:05} " in " ".join(told.split()), "a check that does not hold is never left out"
    assert "7 more, which held, are left out" in told
    assert "more/tables/2.html" in pages
    assert max(len(html.encode()) for html in pages.values()) <= max(LIMIT, len(pages[INDEX]))


def test_a_type_deeper_than_anybody_reads_ends(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, manifest("t", "s"))
    deep: Any = "text"
    for n in range(LEVELS + 5):
        deep = {"struct": [[f"level_{n}", {"array": deep}]]}
    put_table(lake, table("deep", "t", "s", {"top": deep}))
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    assert "deeper levels are left out" in pages["tables/deep.html"]


def test_freshness_is_unknown_where_the_stream_is(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, manifest("t", "s"))
    put_table(lake, table("orphan", "gone", "s"), table("rebuilt", "t", "s"))
    rebuilt = msgspec.structs.replace(manifest("t", "s", files=[{}, {}]), lineage="another")
    put(lake, rebuilt)
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    orphan = said(pages["tables/orphan.html"])
    assert "gone / s , which is not in this lake" in orphan
    assert "Behind unknown" in orphan
    assert "Behind 20 messages" in said(pages["tables/rebuilt.html"])


def test_a_table_that_cannot_be_read_says_so(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, manifest("t", "s"))
    put_table(lake, table("good", "t", "s"), table("begun", "t", "s", generation=0, sources=()))
    lake.storage.put(state_key("broken"), b"{")
    done, pages = built(lake, tmp_path / "site")
    check(pages)
    assert [(each.what, each.trouble.partition(":")[0]) for each in done.troubles] == [
        ("table begun", "begun, and not made yet; run 'singerlake project run'"),
        ("table broken", "not the state of a table"),
    ]
    for path in ("index.html", "tables.html", "tables/broken.html"):
        assert "not the state of a table" in pages[path], path
    assert "Rows" in pages["tables/good.html"]


def test_tables_that_cannot_be_listed_leave_the_streams(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, manifest("t", "s"))

    def refuse(step: Step) -> None:
        if step.key.startswith(f"{PUBLISHED}/"):
            raise AccessDeniedError("access denied", hint="allow it")

    lake.storage.hook = refuse  # type: ignore[attr-defined]
    done, pages = built(lake, tmp_path / "site")
    check(pages)
    assert [(each.what, each.trouble) for each in done.troubles] == [("tables", "access denied; allow it")]
    assert "They cannot be listed: access denied" in pages["tables.html"]
    assert "streams/t/s.html" in pages


def test_the_site_is_no_part_of_the_tables(tmp_path: Path) -> None:
    from singerlake.lake import Lake
    from singerlake.site.build import build_site

    with pytest.raises(SettingError, match="lies in the lake's data"):
        build_site(Lake.open(str(tmp_path)), tmp_path / PUBLISHED / "site")


def test_a_table_of_a_statement_names_the_tables_that_it_read(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, manifest("t", "s"))
    read = (MadeFrom(table="orders & co", generation=1, number=2, rows="0"),)
    put_table(lake, table("late", "", "", declaration={"sql": "SELECT 1 AS id"}, sources=(), made_from=read))
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    (path,) = [path for path in pages if path.startswith("tables/")]
    assert "late a statement over orders & co" in said(pages["tables.html"])
    assert "Its statement read Rows Last run (UTC) orders & co not in this lake never" in said(pages[path])
    assert "SELECT 1 AS id" in pages[path]

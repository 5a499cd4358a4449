"""What is made from what is drawn whole, with links, and stays readable for many streams."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.lake import Lake
from singerlake.site.lineage import DEPTH, Id, Lineage, Thing
from singerlake.site.pages import DRAWN
from singerlake.site.picture import HEIGHT, Layout, Picture, fitting, picture
from singerlake.tables.state.model import MadeFrom
from tests.site.lakes import HOSTILE, built, manifest, memory_lake, put, put_table, table
from tests.site.test_pages import Read, check

TAP, ONE, TWO = ("tap", "t"), ("stream", "t", "one"), ("stream", "t", "two")


def small() -> Lineage:
    """Two streams, a table of each, a statement over both, and one over that."""
    made = Lineage()
    made.add(TAP, Thing("tap", "t", "taps/t.html"))
    for stream in (ONE, TWO):
        made.add(stream, Thing("stream", stream[2], f"streams/t/{stream[2]}.html"), [TAP])
        made.add(("table", stream[2]), Thing("table", stream[2], f"tables/{stream[2]}.html"), [stream])
    both: list[Id] = [("table", "one"), ("table", "two")]
    made.add(("table", "both"), Thing("statement", "both", "tables/both.html"), both)
    made.add(
        ("table", "last"), Thing("statement", "last", "tables/last.html", "check failed", "bad"), [("table", "both")]
    )
    return made


def drawn(lineage: Lineage, here: Id | None = None) -> Picture:
    made = picture(lineage, here)
    assert made is not None
    return made


def names(layout: Layout) -> list[str]:
    return [box.text for box in layout.boxes]


def test_what_is_around_one_thing_is_all_that_it_is_made_from_and_all_that_is_made_from_it() -> None:
    assert set(small().around(("table", "both")).things) == set(small().things)
    assert set(small().around(ONE).things) == {TAP, ONE, ("table", "one"), ("table", "both"), ("table", "last")}


def test_each_kind_has_its_column_and_a_statement_over_a_statement_the_next() -> None:
    layers = [[small().things[id].name for id in layer] for layer in small().layers()]
    assert layers == [["t"], ["one", "two"], ["one", "two"], ["both"], ["last"]]
    across = drawn(small()).across
    assert [head for _, head in across.heads] == ["Tap", "Stream", "Table", "Statement"]
    assert across.width == 5 * 176 + 4 * 40, "as wide as a page"


def test_a_line_leads_from_the_edge_of_one_box_to_the_edge_of_the_other() -> None:
    lineage = small()
    across = drawn(lineage).across
    at = {box.says: box for box in across.boxes}
    ends = {tuple(map(int, re.fullmatch(r"M(\d+) (\d+)C.* (\d+) (\d+)", line).groups())) for line in across.lines}  # type: ignore[union-attr]
    one, both = at["table one"], at["statement both"]
    assert (one.x + one.width, one.y + HEIGHT // 2, both.x, both.y + HEIGHT // 2) in ends
    assert len(ends) == 7


def boxes_apart(layout: Layout) -> None:
    for number, box in enumerate(layout.boxes):
        assert box.x >= 0
        assert box.x + box.width <= layout.width
        assert 0 <= box.y <= layout.height - HEIGHT
        for other in layout.boxes[:number]:
            beside = box.x + box.width <= other.x or other.x + other.width <= box.x
            assert beside or abs(box.y - other.y) >= HEIGHT, (box, other)


@given(st.lists(st.sets(st.integers(0, 14), max_size=4), min_size=1, max_size=15), st.integers(1, 6))
def test_no_box_covers_another_whatever_is_made_from_what(reads: list[set[int]], most: int) -> None:
    """Circles too, which no writer makes: a state may say anything."""
    lineage = Lineage()
    lineage.add(TAP, Thing("tap", "t"))
    for number, read in enumerate(reads):
        kind = "statement" if read else "table"
        above: list[Id] = [("table", str(each)) for each in sorted(read) if each < len(reads)] or [TAP]
        lineage.add(("table", str(number)), Thing(kind, str(number)), above)  # type: ignore[arg-type]
    for made in (lineage, lineage.at_most(most)):
        both = picture(made)
        if both is None:
            assert not any(made.above.values()), "all in one box"
            continue
        for layout in (both.across, both.down):
            boxes_apart(layout)
            assert sorted(names(layout)) == sorted(thing.name for thing in made.things.values())
        assert len(both.across.lines) == len(both.down.lines) == sum(map(len, made.above.values()))


def test_the_outline_has_each_thing_below_all_that_it_is_made_from() -> None:
    rows = [box.says for box in drawn(small()).down.boxes]
    assert rows == [
        "tap t",
        "stream one",
        "table one",
        "stream two",
        "table two",
        "statement both",
        "statement last: check failed",
    ]
    assert all(below.y > above.y for above, below in pairwise(drawn(small()).down.boxes))


def test_statements_deeper_than_anybody_reads_share_a_column() -> None:
    made = Lineage()
    made.add(("table", "0"), Thing("table", "0"))
    for n in range(1, 3 * DEPTH):
        made.add(("table", f"{n}"), Thing("statement", f"{n}"), [("table", f"{n - 1}")])
    assert len(made.layers()) <= DEPTH + 2
    boxes_apart(drawn(made).across)


def test_what_is_too_much_stands_together_and_the_worst_of_it_shows() -> None:
    made = Lineage()
    made.add(TAP, Thing("tap", "t"))
    for n in range(30):
        bad = n == 25
        id = ("stream", "t", str(n))
        made.add(id, Thing("stream", str(n), None, "failed" if bad else "completed", "bad" if bad else "good"), [TAP])
    few = made.at_most(5, ("stream", "t", "29"))
    assert [thing.name for thing in few.things.values()] == ["t", "0", "1", "2", "29", "26 more streams"]
    assert few.things["more streams",].tone == "bad"
    assert few.below[TAP] == list(few.things)[1:]
    assert made.at_most(30) is made


def test_one_thing_alone_is_no_picture() -> None:
    alone = Lineage()
    alone.add(TAP, Thing("tap", "t"))
    assert picture(alone) is None


@pytest.mark.parametrize(
    ("name", "cells", "fits"),
    [("orders", 6, "orders"), ("orders", 5, "orde…"), ("配送状況", 8, "配送状況"), ("配送状況", 6, "配送…")],
)
def test_a_name_that_does_not_fit_ends_in_an_ellipsis(name: str, cells: int, fits: str) -> None:
    assert fitting(name, cells) == fits


def many(streams: int, taps: int = 3) -> Lake:
    """A lake with a table of each stream, and a statement over two tables for every ten."""
    lake = memory_lake()
    pairs = [(f"tap-{n % taps}", f"stream-{n:03}") for n in range(streams)]
    put(lake, *(manifest(tap, stream) for tap, stream in pairs))
    put_table(lake, *(table(f"t_{stream}", tap, stream) for tap, stream in pairs))
    for n in range(0, streams - 10, 10):
        read = tuple(MadeFrom(table=f"t_stream-{n + k:03}", generation=1, number=1, rows="0") for k in (0, taps))
        put_table(lake, table(f"report-{n:03}", "", "", declaration={"sql": "SELECT 1"}, sources=(), made_from=read))
    return lake


def links(html: str) -> set[str]:
    figure = html[html.index("<figure") : html.index("</figure>")]
    return set(re.findall(r'href="([^"]+)"', figure))


def test_300_streams_are_drawn_by_tap_and_each_tap_on_pages_of_its_own(tmp_path: Path) -> None:
    _, pages = built(many(300), tmp_path / "site")
    check(pages)
    whole = Read(pages["lineage.html"]).text
    for words in ("tap-0", "100 streams", "100 tables", "statements"):
        assert words in whole, words
    assert whole.count("stream-0") == 0, "no stream by itself"
    assert {f"lineage/tap-{n}.html" for n in range(3)} <= links(pages["lineage.html"])
    own = {path: html for path, html in pages.items() if path.startswith("lineage/")}
    assert len(own) == 3 * -(-100 // DRAWN)
    for n in range(300):
        (path,) = [
            path for path, html in own.items() if f'href="{up(path)}streams/tap-{n % 3}/stream-{n:03}.html"' in html
        ]
        assert f'href="{up(path)}tables/t_stream-{n:03}.html"' in own[path]
    front = Read(pages["index.html"]).text
    assert "100 streams" in front
    assert "All 300 streams" in front


def up(path: str) -> str:
    return "../" * path.count("/")


def test_a_small_lake_is_one_picture(tmp_path: Path) -> None:
    _, pages = built(many(11), tmp_path / "site")
    check(pages)
    for path in ("lineage.html", "index.html"):
        found = links(pages[path])
        assert {f"streams/tap-{n % 3}/stream-{n:03}.html" for n in range(11)} <= found, path
        assert {f"tables/t_stream-{n:03}.html" for n in range(11)} | {"tables/report-000.html"} <= found, path
    assert not any(path.startswith("lineage/") for path in pages)


def test_the_page_of_each_has_the_picture_around_it(tmp_path: Path) -> None:
    _, pages = built(many(11), tmp_path / "site")
    mine = {"../taps/tap-0.html", "../streams/tap-0/stream-000.html", "../tables/report-000.html"}
    assert mine <= links(pages["tables/t_stream-000.html"])
    assert "../tables/t_stream-000.html" not in links(pages["tables/t_stream-000.html"]), "it is there already"
    assert {"../../tables/t_stream-000.html"} <= links(pages["streams/tap-0/stream-000.html"])
    report = links(pages["tables/report-000.html"])
    assert {"../tables/t_stream-000.html", "../tables/t_stream-003.html", "../streams/tap-0/stream-003.html"} <= report
    assert "../tables/t_stream-001.html" not in report
    assert "../streams/tap-1/stream-001.html" in links(pages["taps/tap-1.html"])


def test_what_is_gone_is_drawn_without_a_link(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, manifest("t", "s"))
    read = (MadeFrom(table="dropped", generation=1, number=1, rows="0"),)
    put_table(lake, table("orphan", "gone", "s"))
    put_table(lake, table("late", "", "", declaration={"sql": "SELECT 1"}, sources=(), made_from=read))
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    assert "stream gone.s: not in this lake" in Read(pages["tables/orphan.html"]).text
    assert "table dropped: not in this lake" in Read(pages["tables/late.html"]).text
    assert links(pages["tables/late.html"]) == set()


def test_no_name_breaks_out_of_a_picture(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, *(manifest(name, name) for name in HOSTILE))
    put_table(lake, *(table(name, name, name) for name in HOSTILE))
    for name in HOSTILE:
        read = (MadeFrom(table=name, generation=1, number=1, rows="0"),)
        put_table(lake, table(f"of {name}", "", "", declaration={"sql": name}, sources=(), made_from=read))
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    for path, html in pages.items():
        if path.endswith(".html"):
            page = Read(html)
            assert page.tags.count("script") == 1, path
            assert not {"img", "iframe", "object", "foreignObject"} & set(page.tags), path
            assert not any(link.startswith("javascript:") for link in page.links)

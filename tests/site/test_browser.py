"""The pages as a browser shows them, from the disk: navigation, search, colours, print, and what axe-core finds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from singerlake.clock import timestamp
from singerlake.format.state.model import Run
from singerlake.site.pages import DRAWN
from singerlake.tables.state.model import MadeFrom, TableRun
from singerlake.upkeep.annotate import Edit, annotate
from tests.fakes import START
from tests.lakes import build_stream
from tests.site.lakes import HOSTILE, built, manifest, memory_lake, put, put_table, table

ORDERS = [
    {"properties": {"id": {"type": "integer"}, "customer_id": {"type": "integer"}}, "required": ["id"]},
    {
        "properties": {
            "id": {"type": "integer", "description": "Number of the order"},
            "customer_id": {"type": "string"},
            "address": {"type": "object", "properties": {"street": {"type": "string"}}},
        },
        "required": ["id"],
    },
]
RULES = {"preload": False, "rules": {"target-size": {"enabled": True}}}
"""axe-core would fetch style sheets, which no page may. It leaves the size of what is touched out, if not asked."""
KINDS = {
    "lake": "index.html",
    "tap": "taps/shop.html",
    "stream": "streams/shop/orders.html",
    "samples": "streams/csv/people.html",
    "version": "schemas/shop/orders/v2.html",
    "older versions": "history/shop/often/2.html",
    "troubled": "streams/shop/broken.html",
    "hostile": "taps/evil.html",
    "streams": "streams.html",
    "tables": "tables.html",
    "taps": "taps.html",
    "lineage": "lineage.html",
    "lineage of a tap": "lineage/evil.html",
    "table": "tables/newest.html",
    "statement": "tables/report.html",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of everything that pages can show."""
    lake = memory_lake()
    outcomes = ("finished", "failed", "stopped", "running")
    runs = [
        Run(id=f"r{n}", writer=f"worker-{n}", started=timestamp(START), status=how) for n, how in enumerate(outcomes)
    ]
    files = [{"last": timestamp(START - timedelta(days=n * 9)), "bytes": 900 * n * n} for n in range(50)]
    put(lake, manifest("shop", "orders", ORDERS, keys=["id"], bookmarks=["id"], runs=runs, files=files))
    put(lake, manifest("shop", "often", [{"properties": {f"p{m}": {} for m in range(n)}} for n in range(1, 45)]))
    put(lake, *(manifest("evil", name, [{"properties": {name: {"description": name}}}]) for name in HOSTILE))
    build_stream(
        lake, "csv", "people", {"properties": {name: {} for name in HOSTILE}}, [dict.fromkeys(HOSTILE, HOSTILE[0])]
    )
    lake.storage.put("raw/shop/broken/manifest.json", b'{"format": 99}')
    address = {"struct": [["street", "text"]]}
    checked = {"checks": [["id", "not_null", "fail"]], "sql": "SELECT 1"}
    failing = TableRun(id="r", at=timestamp(START), kind="run", stop=10, checks={"id not_null": 3})
    columns = {"id": "integer", "address": address}
    put_table(lake, table("newest", "shop", "orders", columns, declaration=checked, runs=(failing,)))
    put_table(lake, *(table(name, "evil", name, {name: "text"}) for name in HOSTILE))
    read = tuple(MadeFrom(table=name, generation=1, number=1, rows="0") for name in ("newest", "orders", "gone"))
    declaration = {"sql": "SELECT 1"}
    put_table(lake, table("report", "", "", {"late": "double"}, declaration=declaration, sources=(), made_from=read))
    put(lake, *(manifest("often", f"s{n:02}") for n in range(DRAWN)))
    annotate(
        lake.storage, "shop", Edit(owner="Data team", description="Of the\nshop", links={"wiki": "https://example.com"})
    )
    folder = tmp_path_factory.mktemp("browsed") / "a site"
    built(lake, folder, samples=2)
    return folder


@pytest.fixture
def complaints() -> list[str]:
    """What the browser complains of, and what a page asks for that is not on the disk."""
    return []


@pytest.fixture
def page(browser: Browser, complaints: list[str]) -> Iterator[Page]:
    """A page of its own, which is quiet to its end."""
    with browser.new_context(viewport={"width": 1280, "height": 900}) as context:
        yield watched(context.new_page(), complaints)
    assert complaints == []


def watched(page: Page, complaints: list[str]) -> Page:
    page.set_default_timeout(10_000)
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", lambda dialog: (complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))
    page.on("requestfailed", lambda request: complaints.append(f"failed: {request.url}"))
    page.on("request", lambda request: request.url.startswith("file://") or complaints.append(request.url))
    return page


def show(page: Page, site: Path, path: str = "index.html") -> None:
    page.goto((site / path).as_uri())


def test_from_the_lake_to_a_version_and_back(page: Page, site: Path) -> None:
    show(page, site)
    expect(page.get_by_role("img", name="Growth")).to_be_visible()
    page.get_by_role("link", name="shop", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Tap shop")
    expect(page.get_by_text("Data team")).to_be_visible()
    page.get_by_role("link", name="orders", exact=True).click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Stream orders")
    page.get_by_role("link", name="v2").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("v2")
    expect(page.get_by_text("integer → string: retyped")).to_be_visible()
    page.get_by_role("navigation", name="Where this page is").get_by_role("link", name="Lake").click()
    expect(page).to_have_title("0000000000000000")


def test_every_page_is_quiet(page: Page, site: Path, complaints: list[str]) -> None:
    """Names that would be scripts run as none: no message, no dialog, no request."""
    for path in sorted(site.rglob("*.html")):
        show(page, site, str(path.relative_to(site)))
        assert complaints == [], path


def test_search_by_keyboard_alone(page: Page, site: Path) -> None:
    show(page, site, "schemas/shop/orders/v2.html")
    page.keyboard.press("/")
    page.keyboard.type("ord")
    results = page.get_by_role("search").get_by_role("link")
    expect(results.first).to_contain_text("orders")
    page.keyboard.press("ArrowDown")
    expect(results.first).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(results.nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**/streams/*/*.html")
    assert "rders" in page.get_by_role("heading", level=1).inner_text()


def test_search_finds_streams_by_property_and_taps_by_owner(page: Page, site: Path) -> None:
    show(page, site)
    box = page.get_by_role("searchbox")
    results = page.get_by_role("search").get_by_role("link")
    box.fill("customer_id")
    expect(page.get_by_role("status")).to_have_text("1 found")
    expect(results).to_have_text("ordersstream of shop, property customer_id")
    box.fill("data TEAM")
    expect(results).to_have_text("shoptap: Data team Of the shop")
    box.fill("there is no such thing")
    expect(page.get_by_role("status")).to_have_text("Nothing is called that")
    page.keyboard.press("Escape")
    expect(box).to_have_value("")
    expect(page.get_by_role("status")).to_be_hidden()


def test_search_finds_tables_by_name_and_column(page: Page, site: Path) -> None:
    for text, said in (
        ("newest", "newesttable of shop orders"),
        ("addr", "newesttable of shop orders, column address"),
    ):
        show(page, site)
        page.get_by_role("searchbox").fill(text)
        page.get_by_role("search").get_by_role("link").filter(has_text=re.compile(f"^{said}$")).click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Table newest")


@pytest.mark.sampled(name=4)
@pytest.mark.parametrize("name", [name for name in HOSTILE if name.strip()])
def test_search_leads_to_hostile_names(page: Page, site: Path, name: str) -> None:
    show(page, site)
    page.get_by_role("searchbox").fill(name.replace("\n", " "))
    results = page.get_by_role("search").get_by_role("link")
    escaped = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in name)
    if not name.isascii() and not name.isprintable():
        # A lone surrogate cannot be typed; what is beside it can.
        page.get_by_role("searchbox").fill("lone" if "lone" in name else "gnp")
    results.filter(has_text=re.compile(f"^{re.escape(escaped)}stream of evil")).click()
    heading = page.get_by_role("heading", level=1)
    expect(heading).to_contain_text(escaped.replace("\\u000a", "\\n"))


def test_without_scripts_everything_but_search_is_there(browser: Browser, site: Path, complaints: list[str]) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = watched(context.new_page(), complaints)
        show(page, site, KINDS["stream"])
        for text in ("customer_id", "street", "Files over time", "worker-3", "not compatible"):
            expect(page.get_by_text(text).first).to_be_visible()
        expect(page.get_by_role("searchbox")).to_be_hidden()
        page.get_by_text("Files over time as a table").click()
        expect(page.get_by_role("row", name=re.compile("^2025-12 "))).to_be_visible()
        page.get_by_role("link", name="v1").click()
        expect(page.get_by_role("heading", level=1)).to_contain_text("v1")
    assert complaints == []


def test_parts_of_a_schema_fold_by_keyboard(page: Page, site: Path) -> None:
    show(page, site, KINDS["version"])
    street = page.get_by_text("street", exact=True)
    expect(street).to_be_visible()
    page.locator("summary", has_text="address").focus()
    page.keyboard.press("Enter")
    expect(street).to_be_hidden()


def test_the_first_key_leads_to_the_content(page: Page, site: Path) -> None:
    show(page, site)
    page.keyboard.press("Tab")
    link = page.get_by_role("link", name="Skip to the content")
    expect(link).to_be_focused()
    expect(link).to_be_in_viewport()
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_be_focused()


def paper(page: Page) -> str:
    return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))


def test_colours_follow_the_system_or_the_choice_which_is_kept(page: Page, site: Path) -> None:
    show(page, site)
    light = paper(page)
    page.emulate_media(color_scheme="dark")
    dark = paper(page)
    assert light != dark
    button = page.get_by_role("button", name="Colours")
    expect(button).to_have_text("Colours: as the system")
    button.click()
    expect(button).to_have_text("Colours: light")
    assert paper(page) == light
    show(page, site, KINDS["tap"])
    assert paper(page) == light
    page.get_by_role("button", name="Colours").click()
    page.emulate_media(color_scheme="light")
    assert paper(page) == dark


def test_a_browser_that_keeps_nothing_still_changes_colours(page: Page, site: Path) -> None:
    refuse = "Object.defineProperty(window, 'localStorage', {get() { throw new DOMException('no', 'SecurityError'); }})"
    page.add_init_script(refuse)
    show(page, site)
    page.get_by_role("button", name="Colours").click()
    expect(page.get_by_role("button", name="Colours: light")).to_be_visible()


@pytest.mark.in_turn("kind", "scheme")
@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
@pytest.mark.parametrize("kind", KINDS)
def test_axe_finds_nothing(page: Page, site: Path, kind: str, scheme: Literal["light", "dark"], width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    show(page, site, KINDS[kind])
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    page.get_by_role("searchbox").fill("o")
    expect(page.get_by_role("status")).to_contain_text("found")
    found = Axe().run(page, options=RULES)
    assert found.violations_count == 0, found.generate_report()
    assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), "scrolls sideways"


@pytest.mark.parametrize("kind", ["lake", "stream", "table", "lineage of a tap", "samples"])
def test_what_scrolls_sideways_on_a_telephone_says_so_and_nothing_else_does(page: Page, site: Path, kind: str) -> None:
    page.set_viewport_size({"width": 390, "height": 900})
    show(page, site, KINDS[kind])
    for wide in page.locator(".wide:visible").all():
        scrolls = wide.evaluate("(wide) => wide.scrollWidth > wide.clientWidth + 1")
        hint = wide.locator("xpath=preceding-sibling::p[1]")
        expect(hint).to_have_text("Scroll sideways to see all")
        expect(hint).to_be_visible(visible=scrolls)
    hints = page.get_by_text("Scroll sideways to see all")
    if kind == "table":
        expect(hints.last).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 900})
    if kind != "samples":
        expect(hints.locator("visible=true")).to_have_count(0)


def test_a_picture_leads_on_by_mouse_and_by_keyboard(page: Page, site: Path) -> None:
    show(page, site, KINDS["statement"])
    picture = page.get_by_role("figure", name="lineage of this table: 2 taps, 2 streams, 2 tables, 2 statements")
    expect(picture.get_by_text("report", exact=True).locator("visible=true")).to_be_visible()
    picture.get_by_role("link", name="statement newest: check failed").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Table newest")
    page.get_by_role("link", name="tap shop", exact=True).focus()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="stream orders: trouble")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Stream orders")


@pytest.mark.parametrize(("width", "seen", "unseen"), [(1280, "across", "down"), (390, "down", "across")])
def test_a_picture_is_an_outline_where_there_is_little_room(
    page: Page, site: Path, width: int, seen: str, unseen: str
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    show(page, site, KINDS["lineage of a tap"])
    expect(page.locator(f"svg.{seen}")).to_be_visible()
    expect(page.locator(f"svg.{unseen}")).to_be_hidden()
    wide = page.get_by_role("region", name="Picture: lineage of a tap")
    assert not wide.evaluate("(wide) => wide.scrollWidth > wide.clientWidth")


@pytest.mark.sampled(kind=3)
@pytest.mark.parametrize("kind", KINDS)
def test_it_prints_in_black_on_white_with_what_is_folded(page: Page, site: Path, kind: str) -> None:
    page.emulate_media(color_scheme="dark")
    show(page, site, KINDS[kind])
    page.emulate_media(media="print", color_scheme="dark")
    assert paper(page) == "rgb(255, 255, 255)"
    expect(page.get_by_role("searchbox")).to_be_hidden()
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.evaluate("for (const each of document.querySelectorAll('.tree details')) each.open = false")
    assert page.pdf(format="A4").startswith(b"%PDF")
    if kind == "version":
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        expect(page.get_by_text("street", exact=True)).to_be_visible()


def test_charts_say_what_they_show(page: Page, site: Path) -> None:
    show(page, site, KINDS["stream"])
    chart = page.get_by_role("img", name="Files over time")
    expect(chart).to_have_accessible_description(re.compile("^Files .*[0-9]"))
    assert chart.locator("rect").count() > 5
    box = chart.bounding_box()
    assert box
    for bar in chart.locator("rect").all():
        inside = bar.bounding_box()
        assert inside
        assert box["x"] - 1 <= inside["x"]
        assert inside["x"] + inside["width"] <= box["x"] + box["width"] + 1

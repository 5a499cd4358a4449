"""What a reader sees of ten pages, on a desktop and on a telephone, compared with what was looked at and found good.

``tests/site/seen`` has a text for each page and width: a line for each block of the page, in the order of the page,
with what of it is really visible: not hidden, not covered, not beyond an edge. Fonts and pixels may differ; what is
missing, new, or out of sight does not pass. ``SINGERLAKE_TEST_WRITE_GOLDEN=1`` writes the texts anew: look at the pages
before you commit them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.site.lakes import built
from tests.site.showcase import showcase
from tools.site_screenshot import PICTURE

SEEN = Path(__file__).parent / "seen"
PAGES = {
    "front": "index.html",
    "streams": "streams.html",
    "tables": "tables.html",
    "lineage": "lineage.html",
    "tap": "taps/postgres.html",
    "stream": "streams/postgres/public-flights.html",
    "stale": "streams/stripe/charges.html",
    "table": "tables/flights.html",
    "statement": "tables/revenue.html",
    "version": "schemas/postgres/public-airlines/v2.html",
}
WIDTHS = {"desktop": 1280, "phone": 390}
_VISIBLE = """() => {
  const found = [];
  const blocks = "tr, li, p, h1, h2, h3, dt, dd, figcaption, summary, pre, nav, button, a:has(svg svg), svg";
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const places = new Map();
  while (texts.nextNode()) {
    const node = texts.currentNode, holder = node.parentElement;
    if (!node.data.trim() || holder.closest("title, desc, script")) continue;
    if (!holder.checkVisibility({opacityProperty: true, visibilityProperty: true})) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    const boxes = [...range.getClientRects()].filter((box) => box.width > 1 && box.height > 1 && box.right > 0)
      .map((box) => ({x: box.x + scrollX, y: box.y + scrollY, width: box.width, height: box.height}));
    // What is for screen readers alone has one pixel.
    if (!boxes.length || holder.getBoundingClientRect().width <= 1) continue;
    const first = boxes[0];
    scrollTo(0, first.y - innerHeight / 2);
    const far = Infinity, nowhere = {left: -far, right: far, bottom: far};
    const edges = holder.closest(".wide")?.getBoundingClientRect() ?? nowhere;
    const below = first.y - scrollY >= edges.bottom;
    const beyond = below || first.x >= edges.right || first.x + first.width <= edges.left;
    const middle = (Math.max(first.x, edges.left) + Math.min(first.x + first.width, edges.right)) / 2;
    const top = document.elementFromPoint(middle - scrollX, first.y + first.height / 2 - scrollY);
    const through = getComputedStyle(holder).pointerEvents === "none";
    const covered = !beyond && !through && !(top && (top === holder || holder.contains(top) || top.contains(holder)));
    const block = holder.closest(blocks) ?? holder;
    if (!places.has(block)) places.set(block, places.size);
    found.push({
      text: node.data.trim().replace(/\\s+/g, " "),
      block: places.get(block), beyond, covered, boxes,
    });
  }
  return found;
}"""


@dataclass(frozen=True)
class Text:
    """A piece of text that takes room. ``beyond``: one has to scroll sideways for it."""

    text: str
    block: int
    beyond: bool
    covered: bool
    boxes: list[dict[str, float]]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seen") / "site"
    built(showcase(), folder, title="Flights & sales")
    return folder


@pytest.fixture(params=WIDTHS, scope="module")
def width(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def page(browser: Browser, width: str) -> Iterator[Page]:
    with browser.new_context(viewport={"width": WIDTHS[width], "height": 900}) as context:
        yield context.new_page()


def texts(page: Page) -> list[Text]:
    return [Text(**each) for each in page.evaluate(_VISIBLE)]


def told(found: list[Text]) -> str:
    """One line a block: what is visible of it, and ``>`` before what lies beyond the edge."""
    blocks: dict[int, list[Text]] = {}
    for each in found:
        if not each.covered:
            blocks.setdefault(each.block, []).append(each)
    lines = []
    for block in blocks.values():
        here = [each.text for each in block if not each.beyond]
        there = [each.text for each in block if each.beyond]
        lines.append(" | ".join(here) + (f" > {' | '.join(there)}" if there else ""))
    return "\n".join(lines) + "\n"


def test_what_is_seen_is_what_was_looked_at(page: Page, site: Path, width: str, name: str) -> None:
    page.goto((site / PAGES[name]).as_uri())
    page.wait_for_function("document.fonts.status === 'loaded'")
    found = texts(page)
    assert [each.text for each in found if each.covered] == [], "something lies over it"
    seen = told(found)
    golden = SEEN / f"{name}-{width}.txt"
    if os.environ.get("SINGERLAKE_TEST_WRITE_GOLDEN"):
        golden.write_text(seen)
    assert seen == golden.read_text()


def test_no_text_lies_on_another_and_none_makes_the_page_scroll_sideways(
    page: Page, site: Path, width: str, name: str
) -> None:
    page.goto((site / PAGES[name]).as_uri())
    page.evaluate("for (const each of document.querySelectorAll('details')) each.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTHS[width]
    found = [(each.text, box) for each in texts(page) if not each.beyond for box in each.boxes]
    for (one, first), (other, second) in combinations(found, 2):
        assert overlap(first, second) <= 2, (one, other)


def overlap(one: dict[str, float], other: dict[str, float]) -> float:
    """How many pixels two boxes share, in the direction in which they share fewer."""
    across = min(one["x"] + one["width"], other["x"] + other["width"]) - max(one["x"], other["x"])
    # Boxes of lines are higher than their letters.
    down = min(one["y"] + one["height"], other["y"] + other["height"]) - max(one["y"], other["y"]) - 6
    return min(across, down)


def test_no_text_of_a_picture_is_wider_than_its_box(page: Page, site: Path, width: str) -> None:
    page.goto((site / PAGES["lineage"]).as_uri())
    rooms: list[list[Any]] = page.evaluate(
        "[...document.querySelectorAll('figure svg svg')].filter((box) => box.checkVisibility()).map((box) => "
        "[box.textContent, box.querySelector('rect').getBoundingClientRect().right, "
        "...[...box.querySelectorAll('text')].map((text) => text.getBoundingClientRect().right)])"
    )
    assert len(rooms) > 15
    assert all(right < edge for _, edge, *rights in rooms for right in rights)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_is_on_paper_of_its_scheme(page: Page, site: Path, scheme: Any, name: str) -> None:
    """By itself, without a choice."""
    page.emulate_media(color_scheme=scheme)
    page.goto((site / PAGES[name]).as_uri())
    paper = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(17, 24, 27)"}[scheme]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "name" in metafunc.fixturenames:
        metafunc.parametrize("name", PAGES)


def test_the_picture_in_readme_is_taken_anew(tmp_path: Path) -> None:
    """In a process of its own, since a second Playwright cannot begin in this one."""
    picture = tmp_path / "site.png"
    done = subprocess.run([sys.executable, "-m", "tools.site_screenshot", str(picture)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    header, kept = picture.read_bytes()[:24], PICTURE.read_bytes()[:24]
    assert header == kept, "a PNG of the same width and height"
    assert len(picture.read_bytes()) > 10_000, "more than paper"


def test_texts_that_overlap_and_those_that_are_covered_are_found(page: Page, tmp_path: Path) -> None:
    """The eye of these tests sees what it has to."""
    bad = tmp_path / "bad.html"
    bad.write_text(
        "<style>p { position: absolute; left: 9px; top: 9px; margin: 0 }"
        "#gone { visibility: hidden } .wide { overflow: auto; width: 90px } .wide span { margin-left: 500px }</style>"
        "<p>first text</p><p>second text</p><h2 id=gone>hidden</h2>"
        "<div class=wide><pre>near<span>far</span></pre></div>"
    )
    page.goto(bad.as_uri())
    found = texts(page)
    assert [each.text for each in found] == ["first text", "second text", "near", "far"]
    assert overlap(found[0].boxes[0], found[1].boxes[0]) > 2
    assert [each.text for each in found if each.covered] == ["first text"]
    assert told(found) == "second text\nnear > far\n"

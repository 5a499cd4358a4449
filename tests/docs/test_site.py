"""Links between pages lead somewhere, in the files and on the site, and every page is in the site's navigation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tools import site_hooks

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TEXTS = [*(ROOT / path for path in ("README.md", *site_hooks.ELSEWHERE)), *sorted(DOCS.rglob("*.md"))]
_FENCE = re.compile(r"^( *)(```+).*?^\1\2$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]*))?\)")


def prose(path: Path) -> str:
    return _FENCE.sub("", path.read_text())


def anchors(path: Path) -> set[str]:
    """The names of a page's headings, as GitHub and MkDocs both make them, and those that it gives by itself."""
    titles = re.findall(r"^#+ (.*?) *$", prose(path), re.MULTILINE)
    made = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}
    return made | set(re.findall(r'<a id="([^"]+)"', path.read_text()))


def broken(path: Path) -> Iterator[str]:
    for target, anchor in _LINK.findall(prose(path)):
        there = (path.parent / target).resolve() if target else path
        if not there.exists() or (anchor and anchor not in anchors(there)):
            yield f"{target}#{anchor}"


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(path: Path) -> None:
    assert list(broken(path)) == []


def listed(entry: Any) -> Iterator[str]:
    if isinstance(entry, str):
        yield entry
    else:
        for each in entry.values() if isinstance(entry, dict) else entry:
            yield from listed(each)


def test_every_page_is_in_the_navigation() -> None:
    pages = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")} | set(site_hooks.ELSEWHERE.values())
    nav = list(listed(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    decisions = {page for page in pages if re.match(r"explanation/decisions/\d", page)}
    assert sorted(nav) == sorted(pages - decisions)


def test_the_first_level_of_the_navigation_is_seen_at_once() -> None:
    assert len(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]) <= 8


def test_the_picture_is_small_and_loads_nothing() -> None:
    picture = (DOCS / "assets/lake.svg").read_text()
    assert len(picture.encode()) < 8000
    assert {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(picture).iter()} >= {"title", "desc"}
    assert re.findall(r"(?:href|src)=|@import|https?://(?!www\.w3\.org/2000/svg)", picture) == []


def test_the_pages_that_show_the_picture_say_what_is_in_it() -> None:
    for page in (ROOT / "README.md", DOCS / "index.md"):
        [said] = re.findall(r"!\[([^\]]*)\]\((?:docs/)?assets/lake\.svg\)", page.read_text())
        assert len(said.split()) > 8


def test_the_screenshot_is_small_and_shown_with_words() -> None:
    screenshot = (DOCS / "assets/site.png").read_bytes()
    assert screenshot.startswith(b"\x89PNG")
    assert 10_000 < len(screenshot) < 200_000
    for page in (ROOT / "README.md", DOCS / "how-to/site.md"):
        [said] = re.findall(r"!\[([^\]]*)\]\((?:docs|\.\.)/assets/site\.png\)", page.read_text())
        assert len(said.split()) > 8


def test_a_link_to_a_page_that_stands_elsewhere_leads_to_it() -> None:
    text = "[the format](../../shared/docs/format/writing.md#12-collecting)"
    assert (
        site_hooks.with_site_links(text, "docs/explanation/stores.md")
        == "[the format](../reference/format/writing.md#12-collecting)"
    )


def test_a_page_that_stands_elsewhere_links_to_pages_of_the_site() -> None:
    assert (
        site_hooks.with_site_links("[a](../../../docs/tutorial.md)", "shared/docs/format/index.md")
        == "[a](../../tutorial.md)"
    )
    assert site_hooks.with_site_links("[a](docs/tutorial.md)", "CHANGELOG.md") == "[a](tutorial.md)"


def test_a_link_to_what_is_no_page_becomes_its_text() -> None:
    assert site_hooks.with_site_links("see [`x`](../tests/x.py).", "docs/tutorial.md") == "see `x`."


def test_links_to_the_web_and_within_a_page_stay() -> None:
    text = "[web](https://example.com/a.md#b), [mail](mailto:a@example.com), [here](#times)"
    assert site_hooks.with_site_links(text, "docs/tutorial.md") == text

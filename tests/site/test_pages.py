"""Which pages there are, what they say, and that none grows beyond its limit."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Run
from singerlake.site.build import INDEX
from singerlake.site.pages import TREE_BYTES, VERSIONS
from singerlake.upkeep.annotate import Edit, annotate
from tests.site.lakes import HOSTILE, SCHEMA, built, manifest, memory_lake, put

LIMIT = 300_000


class Read(HTMLParser):
    """The text of a page, its links, and whether its elements are closed in order."""

    VOID = frozenset(("meta", "link", "input", "br"))

    def __init__(self, html: str) -> None:
        super().__init__()
        self.text, self.links, self.ids, self.tags, self.open = "", [], [], [], []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names)), (tag, names)
        assert not any(name.startswith("on") or name == "style" for name in names), attrs
        for name, value in attrs:
            if name in ("href", "src"):
                self.links.append(value or "")
            if name == "id":
                self.ids.append(value)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def check(pages: dict[str, str]) -> None:
    """What holds for every site: whole pages, no page too large, no link to nowhere, no page that nothing links to."""
    linked = {"index.html"}
    for path, html in pages.items():
        if not path.endswith(".html"):
            continue
        assert len(html.encode()) <= LIMIT, path
        page = Read(html)
        assert page.open == [], path
        assert len(page.ids) == len(set(page.ids)), path
        for link in page.links:
            target, _, place = link.partition("#")
            if link.startswith(("https:", "http:", "mailto:")):
                continue
            if not target:
                assert place in page.ids, (path, link)
                continue
            parts: list[str] = []
            for part in (PurePosixPath(path).parent / target).parts:
                parts = parts[:-1] if part == ".." else [*parts, part]
            assert "/".join(parts) in pages, (path, link)
            linked.add("/".join(parts))
    assert {path for path in pages if path.endswith(".html")} <= linked


def wide(count: int, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {f"property_{n:05}": {"type": "string", **more} for n in range(count)}}


def test_a_small_lake_has_its_pages(tmp_path: Path) -> None:
    lake = memory_lake()
    other = {"properties": {"id": {"type": "string"}, "name": {"type": "string"}}}
    run = Run(
        id="r", writer="worker-1", started="2025-12-31T20:00:00Z", updated="2025-12-31T21:00:00Z", status="finished"
    )
    put(lake, manifest("shop", "orders", [SCHEMA, other], keys=["id"], bookmarks=["at"], runs=[run]))
    annotate(
        lake.storage,
        "shop",
        Edit(owner="Ada", description="Of the\nshop", links={"wiki": "https://example.com/a?b=1&c"}),
    )
    _, pages = built(lake, tmp_path / "site", title="My lake")
    check(pages)
    assert {path for path in pages if path.endswith(".html")} == {
        "index.html",
        "lineage.html",
        "streams.html",
        "taps.html",
        "taps/shop.html",
        "streams/shop/orders.html",
        "schemas/shop/orders/v1.html",
        "schemas/shop/orders/v2.html",
    }
    for path in ("index.html", "taps/shop.html", "streams/shop/orders.html"):
        text = Read(pages[path]).text
        for word in ("My lake", "Ada", "2025-12-31 21:00"):
            assert word in text, (path, word)
    stream = Read(pages["streams/shop/orders.html"])
    assert "https://example.com/a?b=1&c" in stream.links
    for word in (
        "name",
        "integer → string",
        "not compatible",
        "worker-1",
        "completed",
        "1:00:00",
        "offset 10",
        "0 to 19",
    ):
        assert word in stream.text, word
    assert "3 hours before" in Read(pages["index.html"]).text


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_breaks_out_of_a_page_or_a_folder(tmp_path: Path, name: str) -> None:
    lake = memory_lake()
    inner = {"type": "string", "description": name, "enum": [name], "pattern": name, "format": name, "default": name}
    schemas = [{"properties": {name: inner}}, {"properties": {name: {"properties": {name: inner}}, name + name: inner}}]
    run = Run(id=name, writer=name, started=name, status=name)
    file = {"last": name}
    put(lake, manifest(name, name, schemas, keys=[name], bookmarks=[name], runs=[run], files=[file]))
    key = "raw/singerlake.json"
    stored = lake.storage.get(key)
    assert stored
    notes = {
        "owner": name,
        "description": name,
        "links": {name: name, "x": "javascript:alert(1)", "y": f"https://{name}"},
    }
    lake.storage.put(key, json.dumps({**json.loads(stored.body), "taps": {name: notes}}).encode())
    _, pages = built(lake, tmp_path / "site", title=name)
    check(pages)
    for path, html in pages.items():
        assert re.fullmatch(r"[a-z0-9/_~-]+\.(html|css|js)", path)
        if path.endswith(".html"):
            page = Read(html)
            assert page.tags.count("script") == 1
            assert not {"img", "iframe", "object", "form", "base"} & set(page.tags)
            assert not any(link.startswith("javascript:") for link in page.links)
            assert "\u202e" not in html


def test_names_that_differ_by_case_alone_have_pages_of_their_own(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, *(manifest("t", name) for name in ("orders", "Orders", "ORDERS")))
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    assert len({path.casefold() for path in pages}) == len(pages)
    assert sum(path.startswith("streams/") for path in pages) == 3


def test_the_search_index_is_a_script_that_says_where_everything_is(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, *(manifest("</script>", name, [{"properties": {name: {}}}]) for name in HOSTILE))
    _, pages = built(lake, tmp_path / "site")
    script = pages[INDEX]
    assert script.isascii()
    assert script.count("\n") == 1
    index = json.loads(script.removeprefix("const SINGERLAKE_INDEX = ").removesuffix(";\n"))
    assert [name for name, _, _ in index["taps"]] == ["</script>"]
    assert {(name, *properties) for _, name, _, properties in index["streams"]} == {(name, name) for name in HOSTILE}
    assert {page for _, _, page, _ in index["streams"]} <= set(pages)


def test_a_schema_of_thousands_of_properties_goes_on_on_further_pages(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, manifest("t", "s", [wide(5000, description="what it is")]))
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    told = "".join(Read(html).text for path, html in pages.items() if path.startswith("schemas/"))
    assert all(f"property_{n:05}" in told for n in range(5000))
    assert len(pages["streams/t/s.html"]) < 2 * TREE_BYTES
    assert "property_00000" in pages["streams/t/s.html"]


def test_many_versions_go_on_on_further_pages(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, manifest("t", "s", [wide(n + 1) for n in range(3 * VERSIONS + 1)]))
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    assert [path for path in pages if path.startswith("history/")] == [f"history/t/s/{n}.html" for n in (2, 3, 4)]
    for n in range(3 * VERSIONS + 1):
        assert f"schemas/t/s/v{n + 1}.html" in pages


def test_a_version_in_which_everything_changed_shows_the_first_changes_and_counts_the_rest(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, manifest("t", "s", [wide(200, title=str(n)) for n in range(20)]))
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    assert "192 more changes" in Read(pages["streams/t/s.html"]).text
    assert pages["schemas/t/s/v2.html"].count('class="changed"') == 200


def test_many_streams_and_taps_go_on_on_further_pages(tmp_path: Path) -> None:
    lake = memory_lake()
    put(
        lake,
        *(manifest("big", f"{'s' * 100}{n}") for n in range(700)),
        *(manifest(f"tap-{n:03}", "s") for n in range(310)),
    )
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    assert {"taps/big/2.html", "taps/big/3.html", "more/streams/4.html", "more/taps/2.html"} <= set(pages)


def test_labels_that_a_manifest_gives_twice_keep_their_pages_apart(tmp_path: Path) -> None:
    lake = memory_lake()
    made = manifest("t", "s", [wide(n + 1) for n in range(3)])
    made.versions.update(dict.fromkeys(made.versions, "../../v1"))
    put(lake, made)
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    assert sum(path.startswith("schemas/t/s/") for path in pages) == 3


def test_the_newest_files_schema_is_the_one_that_is_shown(tmp_path: Path) -> None:
    lake = memory_lake()
    made = manifest("t", "s", [wide(1), wide(2), wide(1)])
    put(lake, made)
    _, pages = built(lake, tmp_path / "site")
    assert "v1, of the newest file" in Read(pages["streams/t/s.html"]).text


@pytest.mark.parametrize("schema", [None, True, [], "x", {"properties": 7}, {"properties": {"a": None}}, {}])
def test_a_schema_that_is_none_has_a_page(tmp_path: Path, schema: Any) -> None:
    lake = memory_lake()
    lake.storage.put("raw/t/s/manifest.json", to_json(manifest("t", "s", [schema])))
    _, pages = built(lake, tmp_path / "site")
    check(pages)


def test_an_empty_stream_and_an_empty_lake_have_pages(tmp_path: Path) -> None:
    lake = memory_lake()
    lake.stream("t", "s").writer(writer_id="w").open()
    _, pages = built(lake, tmp_path / "site")
    check(pages)
    assert "No file has been committed yet" in pages["streams/t/s.html"]
    empty = memory_lake()
    empty.lake_id("lockfile")
    _, pages = built(empty, tmp_path / "empty")
    check(pages)
    assert "No tap has written to it yet" in pages["index.html"]

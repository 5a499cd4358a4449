"""From a lake to a site: what is wrong with one stream is told and keeps none of the others back."""

from __future__ import annotations

import json
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from singerlake.clock import timestamp
from singerlake.errors import (
    AccessDeniedError,
    SettingError,
    StorageUnavailableError,
    UnknownNameError,
    UnsupportedFormatError,
)
from singerlake.format import layout
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Manifest, Run
from singerlake.lake import Lake
from singerlake.site import build
from singerlake.site.build import SiteTrouble
from singerlake.site.facts import Sampling, gather
from singerlake.site.totals import PERIODS
from tests.fakes import START
from tests.lakes import build_stream, record_line
from tests.site.lakes import SCHEMA, built, manifest, memory_lake, put, put_table, table
from tests.site.test_pages import check
from tests.storage.memory import Step


def tree(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def two_streams() -> Lake:
    lake = memory_lake()
    put(lake, manifest("t", "good"), manifest("t", "bad"), manifest("u", "other"))
    return lake


def refusing(lake: Lake, key: str, error: Exception) -> None:
    """Let storage fail whatever is asked of ``key``."""

    def hook(step: Step) -> None:
        if step.key == key:
            raise error

    lake.storage.hook = hook  # type: ignore[attr-defined]


def test_the_same_lake_gives_the_same_bytes(tmp_path: Path) -> None:
    lake = two_streams()
    for name, threads in (("one", 1), ("two", 8)):
        built(lake, tmp_path / name, threads=threads)
    assert tree(tmp_path / "one") == tree(tmp_path / "two")
    built(lake, tmp_path / "two")
    assert tree(tmp_path / "one") == tree(tmp_path / "two")


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"format": 99}', "format 99"),
        (b"nonsense", "not a JSON object"),
        (b'{"format": 1}', "not a manifest"),
        (None, "no manifest"),
    ],
)
def test_a_stream_that_cannot_be_read_says_so(tmp_path: Path, body: bytes | None, said: str) -> None:
    lake = two_streams()
    key = layout.manifest_key("t", "bad")
    lake.storage.put(layout.stream_prefix("t", "bad") + "x/y.singer.gz", b"")
    if body is None:
        lake.storage.delete(key)
    else:
        lake.storage.put(key, body)
    done, pages = built(lake, tmp_path / "site")
    (trouble,) = done.troubles
    assert (trouble.tap, trouble.stream) == ("t", "bad")
    assert said in trouble.trouble
    for path in ("index.html", "taps/t.html", "streams/t/bad.html"):
        assert said in pages[path], path
    assert said not in pages["streams/t/good.html"]
    assert "schemas/t/good/v1.html" in pages


@pytest.mark.parametrize(
    "error", [AccessDeniedError("no access"), StorageUnavailableError("no answer"), RecursionError()]
)
def test_storage_that_refuses_one_stream_does_not_stop_the_others(tmp_path: Path, error: Exception) -> None:
    lake = two_streams()
    refusing(lake, layout.manifest_key("t", "bad"), error)
    done, pages = built(lake, tmp_path / "site")
    assert [(each.tap, each.stream) for each in done.troubles] == [("t", "bad")]
    assert "schemas/t/good/v1.html" in pages


def test_a_tap_whose_streams_cannot_be_listed_says_so(tmp_path: Path) -> None:
    lake = two_streams()
    refusing(lake, layout.tap_prefix("t"), AccessDeniedError("no access", hint="ask"))
    done, pages = built(lake, tmp_path / "site")
    assert done.troubles == (SiteTrouble("t", None, "no access; ask"),)
    assert "cannot be listed: no access; ask" in pages["taps/t.html"]
    assert "streams/u/other.html" in pages


def test_a_folder_that_no_stream_can_be_in_is_a_trouble_of_its_own(tmp_path: Path) -> None:
    lake = two_streams()
    lake.storage.put(f"raw/t/{'n' * 200}/manifest.json", b"{}")
    done, _ = built(lake, tmp_path / "site")
    assert ["200 bytes" in each.trouble for each in done.troubles] == [True]


@pytest.mark.parametrize(("locked", "outcome"), [(True, "running"), (False, "lost")])
def test_a_silent_run_is_lost_unless_it_holds_a_lock(tmp_path: Path, locked: bool, outcome: str) -> None:
    lake = memory_lake()
    long_ago = timestamp(START - timedelta(hours=5))
    run = Run(id="r", writer="worker", started=long_ago, updated=long_ago)
    made = manifest("t", "s", runs=[run])
    put(lake, made)
    if locked:
        body = {"writer-id": "worker", "acquired": long_ago, "refreshed": long_ago, "nonce": "n"}
        key = layout.version_lock_key("t", "s", next(iter(made.versions)))
        lake.storage.put(key, json.dumps(body).encode())
    _, pages = built(lake, tmp_path / "site")
    for path in ("index.html", "taps/t.html", "streams/t/s.html"):
        assert set(re.findall(r'badge [a-z]+">(?:1 )?(running|lost)<', pages[path])) == {outcome}, path


def test_a_version_without_a_schema_is_a_trouble(tmp_path: Path) -> None:
    lake = two_streams()
    made = manifest("t", "bad")
    made.schemas.clear()
    put_raw(lake, made)
    done, _ = built(lake, tmp_path / "site")
    assert "a version has no schema" in done.troubles[0].trouble


def put_raw(lake: Lake, made: Manifest) -> None:
    """Without the lake's caches, which some states have no place in."""
    lake.storage.put(layout.manifest_key(made.tap, made.stream), to_json(made))


def test_a_lake_of_a_newer_format_is_refused(tmp_path: Path) -> None:
    lake = two_streams()
    lake.storage.put(layout.root_metadata_key(), b'{"format": 2}')
    with pytest.raises(UnsupportedFormatError, match="upgrade"):
        built(lake, tmp_path / "site")
    assert not (tmp_path / "site").exists()


def test_the_site_is_no_part_of_the_lake(tmp_path: Path) -> None:
    lake = Lake.open(str(tmp_path / "lake"))
    put(lake, manifest("t", "s"))
    (tmp_path / "link").symlink_to(tmp_path / "lake" / "raw")
    before = tree(tmp_path / "lake")
    for output in ("lake/raw", "lake/raw/site", "link/t"):
        with pytest.raises(SettingError, match="in the lake's data"):
            built(lake, tmp_path / output, beside=True)
    assert tree(tmp_path / "lake") == before


def test_a_site_of_some_streams_has_their_tables_and_leads_nowhere_else(tmp_path: Path) -> None:
    lake = memory_lake()
    put(lake, *(manifest(tap, stream) for tap in ("one", "two") for stream in ("users", "orders")))
    put_table(lake, table("people", "one", "users"), table("sales", "two", "orders"))

    def pages_of(folder: str, **asked: str) -> list[str]:
        _, pages = built(lake, tmp_path / folder, **asked)
        check(pages)
        return [path for path in sorted(pages) if path.startswith(("streams/", "tables/"))]

    assert pages_of("one", tap="one") == ["streams/one/orders.html", "streams/one/users.html", "tables/people.html"]
    assert pages_of("orders", stream="ord*") == [
        "streams/one/orders.html",
        "streams/two/orders.html",
        "tables/sales.html",
    ]
    with pytest.raises(UnknownNameError):
        built(lake, tmp_path / "none", tap="three")


def test_without_jinja2_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    build.environment.cache_clear()
    try:
        with pytest.raises(SettingError, match=r"pip install 'singerlake\[docs\]'"):
            built(two_streams(), tmp_path / "site")
    finally:
        build.environment.cache_clear()
    assert not (tmp_path / "site").exists()


def test_values_are_shown_only_where_they_are_asked_for(tmp_path: Path) -> None:
    lake = memory_lake()
    records = [{"id": n, "name": f"secret-{n}", "<b>": {"x": [n]}} for n in range(25)]
    build_stream(lake, "t", "s", SCHEMA, records, file_size=10, member_size=4)
    _, without = built(lake, tmp_path / "without")
    assert not any("secret" in text for text in without.values())
    _, pages = built(lake, tmp_path / "with", samples=3)
    page = pages["streams/t/s.html"]
    assert [n for n in range(25) if f"secret-{n}<" in page] == [22, 23, 24]
    assert page.index("secret-24") < page.index("secret-23")
    assert "{&#34;x&#34;: [24]}" in page
    assert "&lt;b&gt;" in page


def test_samples_go_back_over_messages_that_are_no_records(tmp_path: Path) -> None:
    lake = memory_lake()
    build_stream(lake, "t", "s", SCHEMA, [{"id": 1}, {"id": 2}], file_size=2)
    lines = [b'{"type": "ACTIVATE_VERSION", "stream": "s", "version": 7}'] * 3
    build_stream(lake, "t", "s", SCHEMA, [*lines, record_line("s", {"id": float("nan"), "odd": "\ud800"}), *lines])
    (facts,) = gather(lake, sampling=Sampling(2)).streams
    assert facts.samples
    assert dict(facts.samples.rows) == {"id": ("NaN", "2"), "odd": ("\ud800", None)}
    _, pages = built(lake, tmp_path / "site", samples=2)
    assert "\\ud800" in pages["streams/t/s.html"]


@pytest.mark.parametrize(
    ("mask", "hidden"),
    [
        ((), ""),
        (("email",), "ab"),
        ("email", "ab"),
        (("*MAIL*",), "abc"),
        (("contact",), "b"),
        (("phone", "e*_of_old"), "cd"),
        (("*",), "abcde"),
        (("record", "no such name"), ""),
    ],
    ids=str,
)
def test_values_of_masked_properties_are_hidden_also_within_objects(
    tmp_path: Path, mask: str | tuple[str, ...], hidden: str
) -> None:
    lake = memory_lake()
    record = {
        "email": "secret-a",
        "contact": {"email": "secret-b"},
        "old": [{"Email_of_old": "secret-c", "phone": ["secret-d"]}],
        "id": "secret-e",
    }
    build_stream(lake, "t", "s", {"properties": {"id": {}}}, [record])
    _, pages = built(lake, tmp_path / "site", samples=1, mask=mask)
    shown = {letter for letter in "abcde" if any(f"secret-{letter}" in text for text in pages.values())}
    assert shown == set("abcde") - set(hidden)
    assert ("(hidden)" in pages["streams/t/s.html"]) == bool(hidden)


def test_samples_that_cannot_be_read_are_told_and_the_rest_is_shown(tmp_path: Path) -> None:
    lake = two_streams()
    done, pages = built(lake, tmp_path / "site", samples=1)
    assert {each.trouble.partition(":")[0] for each in done.troubles} == {"no sample of values"}
    assert "no sample of values" in pages["streams/t/good.html"]
    assert 'id="schema"' in pages["streams/t/good.html"]


def test_a_record_of_many_long_values_does_not_make_a_long_page(tmp_path: Path) -> None:
    lake = memory_lake()
    record = {f"{'n' * 500}{n}": "<" * 5000 for n in range(500)}
    build_stream(lake, "t", "s", SCHEMA, [record] * 5)
    _, pages = built(lake, tmp_path / "site", samples=5)
    assert len(pages["streams/t/s.html"]) < 300_000
    assert "440 more properties are left out" in pages["streams/t/s.html"]


def test_there_are_as_many_marks_for_many_files_as_for_few(tmp_path: Path) -> None:
    lake = memory_lake()
    files = [{"last": f"20{n % 30:02}-0{n % 9 + 1}-01T00:00:00Z", "bytes": n * n * 977} for n in range(20_000)]
    put(lake, manifest("t", "s", files=files))
    _, pages = built(lake, tmp_path / "site")
    page = pages["streams/t/s.html"]
    assert page.count("<rect ") <= 2 * PERIODS
    assert "20,000" in page
    assert len(page) < 60_000


def test_a_schema_deeper_than_anybody_reads_has_a_page_that_ends(tmp_path: Path) -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(100):
        schema = {"type": "object", "properties": {"in": schema}}
    lake = memory_lake()
    put_raw(lake, manifest("t", "s", [schema]))
    _, pages = built(lake, tmp_path / "site")
    assert pages["schemas/t/s/v1.html"].count("deeper levels are left out") == 1


def test_a_schema_too_deep_to_decode_is_a_trouble(tmp_path: Path) -> None:
    """Under the interpreter's own limit, which the plugins raise for a whole process."""
    lake = two_streams()
    deep = b'{"properties": {"a": ' * 1500 + b"{}" + b"}}" * 1500
    whole = to_json(manifest("t", "bad"))
    lake.storage.put(
        layout.manifest_key("t", "bad"), whole.replace(b'"schema":{', b'"schema":{"deep":' + deep + b",", 1)
    )
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    try:
        done, _ = built(lake, tmp_path / "site")
    finally:
        sys.setrecursionlimit(limit)
    assert [(each.tap, each.stream) for each in done.troubles] == [("t", "bad")]


def test_every_file_of_the_package_that_pages_need_is_there() -> None:
    assert {path.name for path in (build.HERE / "assets").iterdir()} == set(build.ASSETS)


def test_every_class_of_the_style_sheet_is_used() -> None:
    texts = [path.read_text() for path in (*build.HERE.glob("templates/*.html"), *build.HERE.glob("*.py"))]
    texts.append((build.HERE / "assets/site.js").read_text())
    rules = re.sub(r"/\*.*?\*/", "", (build.HERE / "assets/site.css").read_text(), flags=re.DOTALL)
    classes = set(re.findall(r"\.([a-z][a-z-]*)", re.sub(r"\{[^{}]*\}", "{}", rules)))
    assert {"badge", "looks", "scrolls"} <= classes
    assert [name for name in sorted(classes) if not re.search(rf"\b{name}\b", "".join(texts))] == []

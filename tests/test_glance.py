"""How a lake, its streams and tables, and results show themselves in Python and in a notebook."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import pytest

from singerlake import results
from singerlake.aws.settings import S3Settings
from singerlake.errors import SettingError
from singerlake.glance import at_a_glance, html_table
from singerlake.lake import Lake
from singerlake.settings import StoreSettings
from singerlake.storage.settings import StorageSettings
from tests.atomic.lakes import numbers
from tests.lakes import build_stream
from tests.upkeep.shelf import OTHER, SCHEMA

HOSTILE = "<script>alert('x')</script>\x1b[2J\u202e\n"
LONGEST_LINE = 300


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    settings = StorageSettings(s3=S3Settings(access_key_id="AKIASECRET", secret_access_key="hush-hush"))
    stores = StoreSettings(postgres_url="postgresql://kim:hush-hush@db/lake")
    lake = Lake.open(str(tmp_path_factory.mktemp("glance") / "lake"), settings, stores)
    build_stream(lake, "shop", "orders", SCHEMA, numbers(0, 30), file_size=1)
    build_stream(lake, "shop", "orders", OTHER, numbers(0, 1))
    build_stream(lake, HOSTILE, HOSTILE, SCHEMA, numbers(0, 1))
    lake.project(all=True, tables=("orders",))
    return lake


def objects(lake: Lake) -> dict[str, Any]:
    stream = lake.stream("shop", "orders")
    return {
        "lake": lake,
        "stream": stream,
        "hostile stream": lake.stream(HOSTILE, HOSTILE),
        "state": stream.snapshot(),
        "table": lake.table("orders"),
        "plan": lake.project(all=True, dry_run=True)[0],
        "run": lake.project(all=True, tables=("orders",))[0],
        "tables": lake.list_tables(),
        "contents": lake.contents(),
        "versions": lake.versions(),
        "status": lake.status(),
        "vacuum": lake.vacuum(dry_run=True),
        "gc": lake.gc(dry_run=True),
        "gc of a stream": lake.gc(dry_run=True).streams[0],
        "verify": lake.verify(),
        "drop": lake.drop(HOSTILE, dry_run=True),
        "export": lake.export(),
        "diff": stream.diff("v1", "v2"),
        "store": lake.store_status(),
        "locks": lake.locks(),
    }


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        assert not attrs
        self.seen.add(tag)


def tags(html: str) -> set[str]:
    parser = Tags()
    parser.feed(html)
    return parser.seen


def test_everything_shows_itself_on_one_short_line_and_in_a_notebook(lake: Lake) -> None:
    for name, each in objects(lake).items():
        line, html = repr(each), each._repr_html_()
        assert line == str(each)
        assert len(line) <= LONGEST_LINE, name
        assert line.isprintable(), name
        assert tags(html) <= {"code", "table", "thead", "tbody", "tr", "th", "td", "p"}, name
        assert html.isprintable(), name
        assert "hush" not in line + html, name
        assert "AKIA" not in line + html, name


def test_what_is_shown(lake: Lake) -> None:
    root = lake.storage.url
    assert repr(lake) == f"Lake({root!r})"
    assert repr(lake.stream("shop", "orders")) == f"LakeStream({root!r}, 'shop', 'orders')"
    assert repr(lake.stream("shop", "orders").snapshot()) == (
        "Manifest('shop', 'orders', transaction=31, next_offset=31, files=<31>, versions=<2>)"
    )
    assert repr(lake.table("orders")).startswith("LakeTable('orders', 31 rows, ")
    assert "<tr><td>n</td><td>int64</td></tr>" in lake.table("orders")._repr_html_()  # type: ignore[attr-defined]
    assert repr(lake.gc(dry_run=True)) == f"GcResult(lake={root!r}, dry_run=True, streams=<2>)"
    html = lake.contents()._repr_html_()  # type: ignore[attr-defined]
    assert "<tr><th>tap</th><th>streams</th></tr>" in html
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;\\x1b[2J\\u202e\\n" in html


def test_every_result_can_be_looked_at() -> None:
    named = [name for name in results.__all__ if name.endswith("Result")]
    assert len(named) > 20
    assert [name for name in named if not hasattr(getattr(results, name), "_repr_html_")] == []


@at_a_glance
@dataclass
class Part:
    name: str
    count: int = 0
    secret: str = field(default="hush", repr=False)


@at_a_glance
@dataclass
class Whole:
    part: Part | None = None
    parts: tuple[Part, ...] = ()
    error: SettingError | None = None
    text: str = ""
    done: bool = False
    kind: type[Part] | None = None


def test_what_says_nothing_is_left_out() -> None:
    assert repr(Whole()) == "Whole()"
    assert repr(Whole(part=Part(""), parts=(Part("a"), Part("b", 3)))) == "Whole(parts=<2>)"
    assert repr(Whole(part=Part("a", 2), done=True)) == "Whole(part=Part(name='a', count=2), done=True)"
    assert repr(Whole(text="x" * 1000)) == f"Whole(text='{'x' * 199}…')"
    assert repr(Whole(error=SettingError("wrong\x1b[1m", hint="mend it"))) == "Whole(error=wrong\\x1b[1m; mend it)"
    html = Whole(parts=(Part("<b>"), Part("b", 3)))._repr_html_()  # type: ignore[attr-defined]
    assert html == (
        "<code>Whole(parts=&lt;2&gt;)</code><table><thead><tr><th>name</th><th>count</th></tr></thead>"
        "<tbody><tr><td>&lt;b&gt;</td><td></td></tr><tr><td>b</td><td>3</td></tr></tbody></table>"
    )


def test_a_large_table_says_how_much_it_leaves_out() -> None:
    html = html_table(("n",), [(n,) for n in range(23)])
    assert html.count("<tr>") == 1 + 20
    assert html.endswith("<p>and 3 more</p>")
    assert "more" not in html_table(("n",), [(n,) for n in range(20)])

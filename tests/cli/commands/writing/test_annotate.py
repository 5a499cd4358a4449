"""``singerlake annotate`` and ``singerlake export``: what people say, and what the manifests do."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from singerlake.storage.port import Written
from tests.cli.conftest import Run
from tests.lakes import build_stream
from tests.upkeep.shelf import OTHER, SCHEMA

ROOT = layout.root_metadata_key()


def notes(lake: Lake) -> dict[str, object]:
    stored = lake.storage.get(ROOT)
    assert stored is not None
    return json.loads(stored.body)["taps"]  # type: ignore[no-any-return]


def test_what_is_said_is_written_shown_and_taken_away(run: Run, lake: Lake) -> None:
    words = ("annotate", lake.storage.url, "--tap", "t")
    shown = run(
        *words, "--owner", "Ann", "--description", "a\nb", "--link", "w=https://x.org/?a=b", "--link", "m=mailto:a@x"
    )
    assert shown.exit_code == 0
    assert shown.stdout.splitlines() == [
        "tap: t",
        "owner: Ann",
        r"description: a\nb",
        "w: https://x.org/?a=b",
        "m: mailto:a@x",
    ]
    assert run(*words).stdout == shown.stdout
    assert json.loads(run(*words, "--owner", "", "--unlink", "w", "--json").stdout) == {
        "lake": lake.storage.url,
        "tap": "t",
        "owner": "",
        "description": "a\nb",
        "links": {"m": "mailto:a@x"},
    }
    assert notes(lake)["u"] == {"owner": "", "description": "", "links": {}}


def test_runs_and_rebuilds_keep_it_and_what_others_wrote_there_stays(run: Run, lake: Lake) -> None:
    stored = lake.storage.get(ROOT)
    assert stored is not None
    lake.storage.put(ROOT, stored.body.replace(b'"taps": {', b'"mine": [1.50], "taps": {', 1))
    assert run("annotate", lake.storage.url, "--tap", "t", "--owner", "Ann").exit_code == 0
    build_stream(lake, "t", "flights", OTHER, [{"n": 1}])
    assert run("rebuild", "--yes", lake.storage.url).exit_code == 0
    after = lake.storage.get(ROOT)
    assert after is not None
    found = json.loads(after.body)
    assert (found["mine"], found["taps"]["t"]["owner"]) == ([1.5], "Ann")


def test_nothing_new_writes_nothing(run: Run, lake: Lake) -> None:
    words = ("annotate", lake.storage.url, "--tap", "t", "--owner", "Ann")
    assert run(*words).exit_code == 0
    before = lake.storage.get(ROOT)
    assert run(*words).exit_code == 0
    assert lake.storage.get(ROOT) == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--owner", "x" * 201), "201 characters"),
        (("--owner", "a\nb"), "cannot be printed"),
        (("--owner", "a\x1b[2J"), "cannot be printed"),
        (("--description", "a\u202eb"), "cannot be printed"),
        (("--description", "x" * 10_001), "10,001 characters"),
        (("--link", "page"), "has no '='"),
        (("--link", "=https://x.org"), "has no name"),
        (("--link", "a=javascript:alert(1)"), "is not a URL"),
        (("--link", "a=data:text/html,x"), "is not a URL"),
        (("--link", "a=https://"), "is not a URL"),
        (("--link", "a=https://x .org"), "is not a URL"),
        (("--link", "a=https://[x"), "is not a URL"),
        (("--link", "a=x.org"), "is not a URL"),
        (("--link", "a="), "is not a URL"),
        (("--link", "a=https://me:secret@x.org"), "holds a password"),
        (("--unlink", "a"), "there is no link 'a'"),
    ],
)
def test_what_no_page_could_show_is_refused_and_changes_nothing(
    run: Run, lake: Lake, words: tuple[str, ...], said: str
) -> None:
    before = lake.storage.get(ROOT)
    result = run("annotate", lake.storage.url, "--tap", "t", *words)
    assert (result.exit_code, said in result.stderr) == (2, True)
    assert "secret" not in result.stderr
    assert lake.storage.get(ROOT) == before


def test_a_tap_that_is_not_there_is_told(run: Run, lake: Lake) -> None:
    result = run("annotate", lake.storage.url, "--tap", "none", "--owner", "x")
    assert (result.exit_code, "no tap 'none'" in result.stderr) == (2, True)


def test_without_root_metadata_it_says_what_to_do(run: Run, lake: Lake) -> None:
    lake.storage.delete(ROOT)
    assert run("annotate", lake.storage.url, "--tap", "t").stdout == "tap: t\n"
    result = run("annotate", lake.storage.url, "--tap", "t", "--owner", "Ann")
    assert (result.exit_code, "run 'singerlake rebuild'" in result.stderr) == (1, True)
    assert run("rebuild", "--yes", lake.storage.url).exit_code == 0
    assert run("annotate", lake.storage.url, "--tap", "t", "--owner", "Ann").exit_code == 0


def test_two_who_write_at_once_lose_nothing(run: Run, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    put: Callable[..., object] = LocalStorage.put
    others = iter([("u", "Bob")])

    def late(self: LocalStorage, key: str, body: bytes, **conditions: object) -> object:
        for tap, owner in others:
            assert run("annotate", lake.storage.url, "--tap", tap, "--owner", owner).exit_code == 0
        return put(self, key, body, **conditions)

    monkeypatch.setattr(LocalStorage, "put", late)
    assert run("annotate", lake.storage.url, "--tap", "t", "--owner", "Ann").exit_code == 0
    found = notes(lake)
    assert [found[tap]["owner"] for tap in ("t", "u")] == ["Ann", "Bob"]  # type: ignore[index]


def test_export_has_what_is_said_and_what_the_manifests_hold(run: Run, lake: Lake) -> None:
    run("annotate", lake.storage.url, "--tap", "t", "--owner", "Ann")
    result = run("export", lake.storage.url)
    found = json.loads(result.stdout)
    assert result.exit_code == 0
    metadata = lake.root_metadata()
    assert metadata is not None
    assert (found["lake_id"], found["manifest_store"]) == (metadata.lake_id, "lockfile")
    assert [(tap["tap"], tap["owner"]) for tap in found["taps"]] == [("t", "Ann"), ("u", "")]
    flights = found["taps"][0]["streams"][1]
    manifest = lake.stream("t", "flights").snapshot()
    assert (flights["stream"], flights["records"], flights["next_offset"]) == ("flights", 25, 25)
    assert flights["bytes"] == sum(file.bytes for file in manifest.files)
    assert [version["label"] for version in flights["versions"]] == ["v1", "v2"]
    assert [run["id"] for run in flights["runs"]] == [run.id for run in manifest.runs[::-1]][:3]
    assert "tap" not in flights
    only = json.loads(run("export", lake.storage.url, "--tap", "u", "--runs", "0").stdout)
    assert [tap["tap"] for tap in only["taps"]] == ["u"]
    assert only["taps"][0]["streams"][0]["runs"] == []


def test_a_stream_that_cannot_be_read_says_why_and_keeps_none_of_the_others_back(run: Run, lake: Lake) -> None:
    assert isinstance(lake.storage.put(layout.manifest_key("t", "flights"), b"{"), Written)
    build_stream(lake, "t", "more", SCHEMA, [{"n": 1}])
    result = run("export", lake.storage.url)
    streams = json.loads(result.stdout)["taps"][0]["streams"]
    assert result.exit_code == 1
    assert [(each["stream"], bool(each["trouble"])) for each in streams] == [
        ("a/b", False),
        ("flights", True),
        ("more", False),
    ]

"""A site that is served is the one that a build writes, as the lake is now."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from singerlake.catalog.rest import application
from singerlake.errors import AccessDeniedError, NotALakeError, StorageUnavailableError
from singerlake.lake import Lake
from singerlake.site.build import build_site
from singerlake.site.facts import Sampling
from singerlake.site.live import FRESH, LiveSite
from tests.catalog.test_rest import answering
from tests.fakes import FakeClock
from tests.lakes import build_stream
from tests.site.lakes import HOSTILE, memory_lake

SECRET = "kim@example.com"


def small_lake() -> Lake:
    lake = memory_lake()
    build_stream(lake, "crm", "people", {"properties": {}}, [{}])
    return lake


def with_clock() -> tuple[Lake, FakeClock]:
    lake = small_lake()
    assert isinstance(lake.clock, FakeClock)
    return lake, lake.clock


def hostile_lake() -> Lake:
    lake = memory_lake()
    for name in HOSTILE:
        build_stream(lake, name, name, {"properties": {name: {"type": "string"}}}, [{name: f"{name}{SECRET}"}])
    return lake


@pytest.mark.parametrize("samples", [0, 3])
def test_what_is_served_is_what_a_build_writes(tmp_path: Path, samples: int) -> None:
    lake = hostile_lake()
    built = build_site(lake, tmp_path / "site", samples=samples)
    bodies = {file.path: (tmp_path / "site" / file.path).read_bytes() for file in built.files}
    with answering(application(lake.storage, files=LiveSite(lake, Sampling(samples)).get)) as ask:
        for path, body in bodies.items():
            told = ask(f"/{path}")
            assert told.content == body
            kind = {"html": "text/html", "css": "text/css", "js": "text/javascript"}[path.rpartition(".")[2]]
            assert told.headers["Content-Type"] == f"{kind}; charset=utf-8"
            assert told.headers["X-Content-Type-Options"] == "nosniff"
            assert told.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
        assert ask("/").content == bodies["index.html"]
        assert ask("/v1/namespaces").json()["namespaces"] == [["published"]]
        assert ask("/index.html", "POST").status_code == 406
    assert (SECRET.encode() in b"".join(bodies.values())) == bool(samples)


@pytest.mark.parametrize(
    "path",
    [
        "/..%2F..%2Fetc%2Fpasswd",
        "/assets%2F..%2Ftemplates%2Fbase.html",
        "/assets//site.css",
        "//",
        "/singerlake-site.json",
        "/streams",
        "/%00",
        "/%ED%A0%80",
        "/raw/singerlake.json",
        "/index.html/",
    ],
)
def test_a_path_that_is_no_file_of_the_site_is_not_there(path: str) -> None:
    lake = small_lake()
    with answering(application(lake.storage, files=LiveSite(lake).get)) as ask:
        assert ask(path).status_code == 404


def test_pages_are_those_of_now_after_some_seconds() -> None:
    lake, clock = with_clock()
    site = LiveSite(lake)
    build_stream(lake, "crm", "houses", {"properties": {}}, [{}])
    assert site.get("streams/crm/houses.html") is None
    clock.seconds = FRESH
    assert site.get("streams/crm/houses.html") is not None


def test_a_lake_that_answers_slowly_is_asked_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, clock = with_clock()
    asked = []

    def slowly(_: Lake) -> list[str]:
        asked.append(clock.seconds)
        clock.seconds += 2
        return []

    monkeypatch.setattr(Lake, "taps", slowly)
    site = LiveSite(lake)
    for now in (20.0, 21.9, 22.0):
        clock.seconds = now
        site.get("index.html")
    assert asked == [0, 22]


def test_one_asks_and_the_others_get_the_pages_of_before(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, clock = with_clock()
    site = LiveSite(lake)
    asked, go_on = threading.Event(), threading.Event()
    counted = []
    ask = site._ask

    def slowly() -> None:
        counted.append(1)
        asked.set()
        assert go_on.wait(30)
        ask()

    monkeypatch.setattr(site, "_ask", slowly)
    clock.seconds = FRESH
    one = threading.Thread(target=site.get, args=("index.html",))
    one.start()
    assert asked.wait(30)
    assert all(site.get("index.html") for _ in range(100))
    go_on.set()
    one.join(30)
    assert site.get("index.html")
    assert counted == [1]


def test_a_lake_that_cannot_be_read_is_told_until_it_can(monkeypatch: pytest.MonkeyPatch) -> None:
    lake, clock = with_clock()
    monkeypatch.setattr(Lake, "taps", _raise(StorageUnavailableError("s3cret", hint="")))
    site = LiveSite(lake)
    with answering(application(lake.storage, files=site.get)) as ask:
        for _ in range(2):
            told = ask("/")
            assert (told.status_code, "s3cret" in told.text) == (503, False)
        monkeypatch.setattr(Lake, "taps", _raise(AccessDeniedError("s3cret", hint="")))
        assert ask("/").status_code == 503
        clock.seconds = FRESH
        assert ask("/").status_code == 403
        monkeypatch.undo()
        clock.seconds = 2 * FRESH
        assert ask("/").status_code == 200


def test_a_lake_that_went_is_not_an_empty_one() -> None:
    lake, clock = with_clock()
    site = LiveSite(lake)
    lake.storage.delete_all([entry.key for entry in lake.storage.list("")])
    clock.seconds = FRESH
    with pytest.raises(NotALakeError):
        site.get("index.html")


def _raise(error: Exception) -> Callable[[Lake], list[str]]:
    def raising(_: Lake) -> list[str]:
        raise error

    return raising


def test_a_token_is_asked_for_on_every_page() -> None:
    lake = small_lake()
    with answering(application(lake.storage, "s3cret", LiveSite(lake).get)) as ask:
        for path in ("/", "/assets/site.js", "/v1/config"):
            told = ask(path)
            assert (told.status_code, told.headers["WWW-Authenticate"]) == (401, 'Basic realm="singerlake"')
            assert ask(path, auth=("anyone", "s3cret")).status_code == 200
            assert ask(path, headers={"Authorization": "bearer s3cret"}).status_code == 200
            for given in ("Basic s3cret", "Basic !", "Basic", "Basic czNjcmV0", "Digest s3cret", "Bearer", "s3cret"):
                assert ask(path, headers={"Authorization": given}).status_code == 401
            assert ask(path, auth=("s3cret", "")).status_code == 401
        assert ask("/healthz").status_code == 200

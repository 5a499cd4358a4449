"""What one file of one stream costs in requests to S3, as the documentation says it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import plugins
from tests.servers.s3 import Request, S3Server
from tests.tap.runs import environment

MESSAGES = [
    {"type": "SCHEMA", "stream": "s", "schema": {"properties": {"n": {"type": "integer"}}}, "key_properties": ["n"]},
    *({"type": "RECORD", "stream": "s", "record": {"n": n}} for n in range(10)),
    {"type": "STATE", "value": {"n": 9}},
]
LOCKFILE = [
    "PUT singerlake.lock if absent",
    "GET singerlake.lock",
    "PUT .singer.gz",
    "PUT manifest.json if unchanged",
    "HEAD .singer.gz",
    "DELETE singerlake.lock if unchanged",
]
CATALOGUE = "GET catalogue.json"
COMMIT = {"lockfile": "PUT manifest.json if unchanged", "log": "PUT _log/ if absent"}
LOG = ["PUT .singer.gz", "PUT _log/ if absent", "GET _log/floor.json", "HEAD .singer.gz"]


@pytest.mark.parametrize(("store", "wanted"), [("lockfile", LOCKFILE), ("log", LOG)])
def test_a_file_is_written_in_few_requests(s3: S3Server, tmp_path: Path, store: str, wanted: list[str]) -> None:
    s3.create_bucket("lake")
    requests_of_a_run(s3, tmp_path, store)
    told = requests_of_a_run(s3, tmp_path, store)
    first = told.index(wanted[0])
    # The catalogue is asked for once the commit is there, beside the requests that follow it.
    found = [each for each in told[first:] if each != CATALOGUE][: len(wanted)]
    if store == "lockfile":
        # The file is sent while the lock is read back, and looked for while that is given back.
        for pair in (slice(1, 3), slice(4, 6)):
            assert sorted(found[pair]) == sorted(wanted[pair])
            found[pair] = wanted[pair]
    assert found == wanted
    assert told.count(CATALOGUE) == 1
    assert told.index(CATALOGUE) > told.index(COMMIT[store])
    assert sum(each.startswith(("PUT", "DELETE")) for each in told) <= sum(
        each.startswith(("PUT", "DELETE")) for each in wanted
    ) + (store == "log"), "beside them a run only reads, and publishes a log's state at most"


@pytest.mark.parametrize("store", ["lockfile", "log"])
def test_the_first_run_of_a_tap_tells_the_lake_of_it_in_two_requests(s3: S3Server, tmp_path: Path, store: str) -> None:
    s3.create_bucket("lake")
    requests_of_a_run(s3, tmp_path, store, tap="first")
    told = requests_of_a_run(s3, tmp_path, store, tap="second")
    behind = told[len(told) - told[::-1].index(COMMIT[store]) :]
    of_the_lake = [each for each in behind if "singerlake.json" in each or "catalogue.json" in each]
    assert sorted(of_the_lake) == ["PUT catalogue.json if absent", "PUT singerlake.json if unchanged"]
    assert CATALOGUE not in told


def test_one_listing_says_whether_a_new_stream_has_anything(s3: S3Server, tmp_path: Path) -> None:
    s3.create_bucket("lake")
    requests_of_a_run(s3, tmp_path, "lockfile", tap="first")
    told = requests_of_a_run(s3, tmp_path, "lockfile", tap="second")
    looks = told[: told.index("PUT manifest.json if absent")]
    listing = "GET lake"
    assert [each for each in looks if each != "GET singerlake.json"] == ["GET manifest.json", listing] * 2


def requests_of_a_run(s3: S3Server, tmp_path: Path, store: str, tap: str = "t") -> list[str]:
    """All but those of a probe, in their order."""
    config = tmp_path / "config.json"
    root = f"s3://lake/{tmp_path.name}"
    config.write_text(
        json.dumps({"lake_root": root, "tap_id": tap, "manifest_store": store, "s3_endpoint_url": s3.endpoint_url})
    )
    text = "".join(json.dumps(message) + "\n" for message in MESSAGES).encode()
    s3.requests()
    run = plugins.run("target", ["--config", str(config)], text, env=environment(**s3.environment()))
    assert run.returncode == 0, run.stderr
    return [shown(request) for request in s3.requests() if not is_of_a_probe(request)]


def is_of_a_probe(request: Request) -> bool:
    """Its objects are removed by one request, whose body names them."""
    return "_singerlake_probe" in request.path + request.query or request.query.startswith("delete")


def shown(request: Request) -> str:
    name = request.path.rpartition("/")[2]
    if name.endswith(".singer.gz"):
        name = ".singer.gz"
    elif "/_log/" in request.path:
        name = "_log/floor.json" if name == "floor.json" else "_log/"
    condition = " if absent" if "if-none-match" in request.headers else ""
    condition = " if unchanged" if "if-match" in request.headers else condition
    return f"{request.method} {name}{condition}"

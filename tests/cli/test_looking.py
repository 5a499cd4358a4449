"""Commands that only look, with permissions that only let them read, on lakes of every manifest store."""

from __future__ import annotations

import json
import uuid

import pytest
from click.testing import Result

from singerlake.lake import Lake
from singerlake.storage.cloud import storage as cloud_module
from singerlake.storage.drivers.s3 import driver as s3_module
from singerlake.stores.dynamodb.client import DynamoTable
from singerlake.stores.dynamodb.tables import create_table
from tests.cli.conftest import Run
from tests.fakes import FakeClock
from tests.lakes import build_stream, record_line
from tests.servers.dynamodb import DynamoServer
from tests.servers.s3 import ACCESS_KEY_ID, ALWAYS, REGION, SECRET_ACCESS_KEY, S3Server
from tests.upkeep.shelf import SCHEMA

KINDS = ["lockfile", "log", "merge", "dynamodb", "postgres"]
ONE = ("--tap", "t", "--stream", "s")
LOOKING = [
    ("ls",),
    ("versions",),
    ("diff", "v1", "v1"),
    ("status",),
    ("annotate", "--tap", "t"),
    ("export",),
    ("verify",),
    ("rebuild", "--dry-run"),
    ("vacuum", "--dry-run"),
    ("gc",),
    ("gc", "--orphans", "--grace", "0s"),
    ("drop", "--tap", "t"),
    ("erase", *ONE, "--where", "n = 1"),
    ("verify", "--ignore", "erased", "--erased", "n = 1"),
    ("expire", *ONE, "--before-offset", "1"),
    ("policy", "ls"),
    ("lock", "ls"),
    ("store", "ls"),
    ("store", "trim"),
    ("store", "trim", "--keep", "0"),
    ("store", "migrate", "--dry-run", "--to", "log"),
    ("store", "migrate", "--dry-run", "--to", "lockfile"),
]

LOOKING_AT_LOGS = [
    ("gc",),
    ("vacuum", "--dry-run"),
    ("drop", "--tap", "t"),
    ("store", "ls"),
    ("store", "trim", "--keep", "0"),
]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def env(s3: S3Server, kind: str, request: pytest.FixtureRequest) -> dict[str, str]:
    given = {
        "SINGERLAKE_AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "SINGERLAKE_AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "SINGERLAKE_AWS_REGION": REGION,
        "SINGERLAKE_S3_ENDPOINT_URL": s3.endpoint_url,
    }
    if kind == "dynamodb":
        server: DynamoServer = request.getfixturevalue("dynamodb")
        table = f"looking-{uuid.uuid4().hex[:12]}"
        create_table(DynamoTable(table, server.settings(), endpoint_url=server.endpoint_url, clock=FakeClock()))
        given |= {"SINGERLAKE_DYNAMODB_TABLE": table, "SINGERLAKE_DYNAMODB_ENDPOINT_URL": server.endpoint_url}
    if kind == "postgres":
        url, schema = request.getfixturevalue("postgres_schema")
        given |= {"SINGERLAKE_POSTGRES_URL": url, "SINGERLAKE_POSTGRES_SCHEMA": schema}
    return given


@pytest.fixture
def lake(run: Run, s3: S3Server, kind: str, env: dict[str, str]) -> Lake:
    bucket = s3.create_bucket(f"looking-{uuid.uuid4().hex[:12]}")
    lake = Lake.open(f"s3://{bucket}/lake", s3.settings())
    build_stream(lake, "t", "s", SCHEMA, [record_line("s", {"n": n}) for n in range(6)], file_size=2)
    if kind != "lockfile":
        assert run("store", "migrate", "--yes", lake.storage.url, "--to", kind, env=env).exit_code == 0
    return lake


GROUPS = ("lock", "policy", "store")


@pytest.mark.sampled(kind=2)
def test_looking_takes_permission_to_read_alone(
    run: Run, s3: S3Server, lake: Lake, kind: str, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    s3.calm()
    s3.fail("PUT,POST,DELETE", status=403, code="AccessDenied", times=ALWAYS)
    for words in LOOKING if kind == "merge" else LOOKING_AT_LOGS:
        # As in a process of its own, which knows nothing of the bucket yet.
        monkeypatch.setattr(cloud_module, "_known", {})
        monkeypatch.setattr(s3_module, "_learned", {})
        s3.requests()
        name, rest = (words[:2], words[2:]) if words[0] in GROUPS else (words[:1], words[1:])
        result = run(*name, lake.storage.url, *rest, env=env)
        assert result.exit_code == 0, (words, result.stdout, result.stderr)
        assert {request.method for request in s3.requests()} <= {"GET", "HEAD"}, words


@pytest.mark.parametrize("kind", ["dynamodb"], indirect=True)
def test_looking_only_reads_the_table(run: Run, dynamodb: DynamoServer, lake: Lake, env: dict[str, str]) -> None:
    dynamodb.requests()
    for words in (("gc",), ("vacuum", "--dry-run"), ("verify",), ("store", "ls")):
        assert run(*words[:2], lake.storage.url, env=env).exit_code == 0
    asked = {request.headers["x-amz-target"].rpartition(".")[2] for request in dynamodb.requests()}
    assert asked <= {"GetItem", "Query"}


@pytest.mark.parametrize("kind", ["lockfile"], indirect=True)
def test_what_may_not_be_deleted_is_a_matter_of_access(run: Run, s3: S3Server, lake: Lake, env: dict[str, str]) -> None:
    url = lake.storage.url
    assert run("vacuum", "--yes", url, env=env).exit_code == 0
    assert run("gc", url, "--delete", "--grace", "0s", env=env).exit_code == 0
    s3.fail("DELETE,POST", status=403, code="AccessDenied", times=ALWAYS, key_contains=".singer.gz")
    s3.fail("POST", status=403, code="AccessDenied", times=ALWAYS)
    denied = run("gc", url, "--delete", "--grace", "0s", env=env)
    assert denied.exit_code == 2
    assert "t/s: not collected: storage denied access; grant" in denied.stdout
    assert "s3:DeleteObject" in denied.stdout
    assert "manifest:" not in denied.stdout
    told = json.loads(run("gc", url, "--delete", "--grace", "0s", "--json", env=env).stdout)
    assert (told["findings"], [(each["stream"], each["error"]["kind"]) for each in told["failed"]]) == (
        [],
        [("s", "access_denied")],
    )
    s3.calm()
    assert run("gc", url, "--delete", "--grace", "0s", env=env).exit_code == 0
    assert run("verify", url, env=env).exit_code == 0


@pytest.mark.parametrize("kind", ["lockfile", "log"], indirect=True)
def test_a_drop_that_is_denied_is_a_matter_of_access(
    run: Run, s3: S3Server, lake: Lake, kind: str, env: dict[str, str]
) -> None:
    words = "drop", lake.storage.url, "--tap", "t", "--delete", "--now"
    s3.fail("PUT,POST,DELETE", status=403, code="AccessDenied", times=ALWAYS)
    denied = run(*words, env=env)
    assert denied.exit_code == 2
    assert "t/s: not dropped: storage denied access; grant" in denied.stdout
    s3.calm()
    assert run("verify", lake.storage.url, env=env).exit_code == 0
    s3.fail("DELETE,POST", status=403, code="AccessDenied", times=ALWAYS, key_contains=".singer.gz")
    s3.fail("POST", status=403, code="AccessDenied", times=ALWAYS)
    halfway = run(*words, env=env)
    assert halfway.exit_code == 2
    assert "t/s: dropped, and then failed: storage denied access; grant" in halfway.stdout
    s3.calm()
    done = run(*words, env=env)
    assert (done.exit_code, "t/s: nothing to drop\ndeleted: 3 files (" in done.stdout) == (0, True)


@pytest.mark.parametrize("kind", ["lockfile", "log", pytest.param("merge", marks=pytest.mark.soak)], indirect=True)
def test_records_are_erased_and_expire_without_permission_to_delete(
    run: Run, s3: S3Server, lake: Lake, env: dict[str, str]
) -> None:
    def denied(words: tuple[str, ...]) -> None:
        ended = run(words[0], lake.storage.url, *words[1:], "--now", env=env)
        assert (ended.exit_code, "and then failed: storage denied access; grant" in ended.stdout) == (2, True), words

    s3.calm()
    s3.fail("DELETE,POST", status=403, code="AccessDenied", times=ALWAYS)
    erase = ("erase", *ONE, "--where", "n = 1", "--delete")
    expire = ("expire", *ONE, "--before-offset", "3", "--delete")
    for words in (erase, ("policy", "set", "--tap", "t", "--older-than", "400d"), ("policy", "unset", "--tap", "t")):
        name, rest = (words[:2], words[2:]) if words[0] in GROUPS else (words[:1], words[1:])
        done = run(*name, lake.storage.url, *rest, env=env)
        assert done.exit_code == 0, (words, done.output)
    denied(erase)
    done = run(expire[0], lake.storage.url, *expire[1:], env=env)
    assert done.exit_code == 0, done.output
    assert run("verify", lake.storage.url, env=env).exit_code == 0
    s3.calm()


@pytest.mark.parametrize("kind", ["log"], indirect=True)
def test_a_trim_that_is_denied_is_a_matter_of_access(run: Run, s3: S3Server, lake: Lake, env: dict[str, str]) -> None:
    s3.fail("PUT,DELETE", status=403, code="AccessDenied", times=ALWAYS, key_contains="_log/")
    denied = run("store", "trim", lake.storage.url, "--keep", "0", "--yes", env=env)
    assert denied.exit_code == 2
    assert "t/s: storage denied access; grant" in denied.stdout


PROJECT_LOOKING = [("plan",), ("ls",), ("verify",), ("gc", "--grace", "0s"), ("drop", "s"), ("run", "--dry-run")]


@pytest.mark.parametrize("kind", ["lockfile"], indirect=True)
def test_tables_are_made_without_permission_to_delete_and_looked_at_without_one_to_write(
    run: Run, s3: S3Server, lake: Lake, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def project(*words: str) -> Result:
        monkeypatch.setattr(cloud_module, "_known", {})
        monkeypatch.setattr(s3_module, "_learned", {})
        return run("project", words[0], lake.storage.url, *words[1:], "--all", env=env)

    s3.calm()
    s3.fail("DELETE,POST", status=403, code="AccessDenied", times=ALWAYS)
    for words in (("run",), ("run", "--full-refresh"), ("verify", "--deep")):
        made = project(*words)
        assert made.exit_code == 0, made.output
    assert lake.table("s").to_arrow().read_all().num_rows == 6
    for words in (("gc", "--grace", "0s", "--delete"), ("drop", "s", "--delete")):
        denied = project(*words)
        assert (denied.exit_code, "storage denied access; grant" in denied.output) == (2, True), denied.output
        assert "s3:DeleteObject" in denied.output
    s3.fail("PUT", status=403, code="AccessDenied", times=ALWAYS)
    for words in PROJECT_LOOKING:
        s3.requests()
        looked = project(*words)
        assert looked.exit_code == 0, (words, looked.output)
        assert {request.method for request in s3.requests()} <= {"GET", "HEAD"}, words
    denied = project("run", "--full-refresh")
    assert (denied.exit_code, "s3:PutObject" in denied.output) == (2, True), denied.output
    s3.calm()
    assert project("verify", "--deep").exit_code == 0

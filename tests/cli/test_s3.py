"""The same commands on a lake in S3, with settings from options and from the environment."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from singerlake.format import layout
from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import build_stream, record_line
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, S3Server
from tests.upkeep.shelf import SCHEMA


@pytest.fixture
def bucket(s3: S3Server) -> str:
    return s3.create_bucket(f"cli-{uuid.uuid4().hex[:12]}")


@pytest.fixture
def s3_lake(s3: S3Server, bucket: str) -> Iterator[Lake]:
    lake = Lake.open(f"s3://{bucket}/some/prefix", s3.settings())
    build_stream(lake, "t", "s", SCHEMA, [record_line("s", {"n": n}) for n in range(25)], file_size=10)
    return lake


@pytest.fixture
def env(s3: S3Server) -> dict[str, str]:
    return {
        "SINGERLAKE_AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "SINGERLAKE_AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "SINGERLAKE_AWS_REGION": REGION,
        "SINGERLAKE_S3_ENDPOINT_URL": s3.endpoint_url,
    }


def test_all_commands(run: Run, s3_lake: Lake, env: dict[str, str]) -> None:
    url = s3_lake.storage.url
    assert run("doctor", url, env=env).exit_code == 0
    assert "1 tap, 1 stream, 3 files, 25 records" in run("ls", url, env=env).stdout
    assert run("verify", url, env=env).exit_code == 0
    s3_lake.storage.delete(layout.manifest_key("t", "s"))
    assert run("verify", url, env=env).exit_code == 1
    rebuilt = run("rebuild", "--yes", url, env=env)
    assert (rebuilt.exit_code, "t/s: was made anew, 3 files, 25 messages" in rebuilt.stdout) == (0, True)
    assert run("verify", url, env=env).exit_code == 0
    assert run("lock", "ls", url, env=env).stdout == "no locks\n"


def test_a_table_from_its_making_to_its_end(run: Run, s3: S3Server, s3_lake: Lake, env: dict[str, str]) -> None:
    url = s3_lake.storage.url

    def project(*words: str) -> Result:
        result = run("project", words[0], url, *words[1:], "--all", env=env)
        assert result.exit_code == 0, result.output
        return result

    s3.calm()
    project("plan")
    assert {request.method for request in s3.requests()} <= {"GET", "HEAD"}
    assert "s: 25 records read: 25 new" in project("run").stdout
    s3.calm()
    assert project("run").stdout == "s: nothing new\n"
    project("ls")
    assert {request.method for request in s3.requests()} <= {"GET", "HEAD"}
    project("run", "--full-refresh", "--engine", "processes")
    assert project("verify", "--deep").stdout.startswith("sound: 1 table, 1 file, 25 rows")
    assert "1 file" in project("gc", "--grace", "0s", "--delete").stdout
    assert s3_lake.table("s").to_arrow().read_all().num_rows == 25
    project("drop", "s", "--delete")
    assert list(s3_lake.storage.list("published/")) == []


@pytest.mark.sampled(command=3)
@pytest.mark.parametrize(
    "command", [("ls",), ("verify",), ("rebuild", "--dry-run"), ("vacuum", "--dry-run"), ("gc",), ("lock", "ls")]
)
def test_looking_needs_no_permission_to_write(
    run: Run, s3: S3Server, s3_lake: Lake, env: dict[str, str], command: tuple[str, ...]
) -> None:
    s3_lake.storage.delete(layout.manifest_key("t", "s"))
    s3.calm()
    run(*command, s3_lake.storage.url, env=env)
    assert {request.method for request in s3.requests()} <= {"GET", "HEAD"}


def test_settings_may_be_options(run: Run, s3: S3Server, s3_lake: Lake, env: dict[str, str]) -> None:
    secrets = {name: value for name, value in env.items() if "ACCESS" in name}
    options = ("--endpoint-url", s3.endpoint_url, "--region", REGION)
    assert run("ls", s3_lake.storage.url, *options, env=secrets).exit_code == 0


def test_a_bucket_that_is_not_there_is_a_usage_error(run: Run, env: dict[str, str]) -> None:
    result = run("ls", f"s3://no-such-bucket-{uuid.uuid4().hex[:8]}", env=env)
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


def test_a_bucket_without_a_lake_is_a_usage_error(run: Run, bucket: str, env: dict[str, str]) -> None:
    result = run("ls", f"s3://{bucket}", env=env)
    assert (result.exit_code, "nothing here is a lake" in result.stderr) == (2, True)


def test_a_manifest_whose_reply_is_lost_is_written_once(
    run: Run, s3: S3Server, s3_lake: Lake, env: dict[str, str]
) -> None:
    key = layout.manifest_key("t", "s")
    s3_lake.storage.delete(key)
    s3.drop_reply("PUT", key_contains="manifest.json")
    assert run("rebuild", "--yes", s3_lake.storage.url, env=env).exit_code == 0
    assert run("verify", s3_lake.storage.url, env=env).exit_code == 0


def test_a_site_is_made_without_permission_to_write(
    run: Run, s3: S3Server, s3_lake: Lake, env: dict[str, str], tmp_path: Path
) -> None:
    s3.calm()
    made = run("docs", "build", s3_lake.storage.url, "-o", tmp_path / "site", "--samples", 1, env=env)
    assert (made.exit_code, made.stdout.partition(" pages")[0]) == (0, "7")
    assert {request.method for request in s3.requests()} <= {"GET", "HEAD"}
    page = (tmp_path / "site/streams/t/s.html").read_text()
    assert s3_lake.storage.url in page
    assert "<bdi>24</bdi>" in page
    assert not any(secret in page for secret in (ACCESS_KEY_ID, SECRET_ACCESS_KEY))


@pytest.mark.sampled(engine=1)
@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_every_engine_reaches_the_bucket(
    run: Run, s3_lake: Lake, env: dict[str, str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, engine: str
) -> None:
    """With settings of options alone, which other processes cannot find by themselves; keys from a file."""
    url = s3_lake.storage.url
    keys = tmp_path / "credentials"
    keys.write_text(
        f"[lake]\naws_access_key_id = {ACCESS_KEY_ID}\naws_secret_access_key = {SECRET_ACCESS_KEY}\nregion = {REGION}\n"
    )
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(keys))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(keys))
    how = ("--engine", engine, "--profile", "lake", "--endpoint-url", env["SINGERLAKE_S3_ENDPOINT_URL"])
    sound = run("verify", url, *how)
    assert (sound.exit_code, sound.stdout.partition(" messages")[0]) == (0, "sound: 1 stream, 3 files, 25")
    s3_lake.storage.put("raw/t/s/x/bad.singer.gz", b"?")
    s3_lake.storage.delete(layout.manifest_key("t", "s"))
    journal = tmp_path / "journal"
    first = run("rebuild", url, *how, "--journal", journal, "--dry-run")
    again = run("rebuild", "--yes", url, *how, "--journal", journal)
    for rebuilt in (first, again):
        assert rebuilt.exit_code == 1
        assert "broken: raw/t/s/x/bad.singer.gz: not a gzip file; left out" in rebuilt.stdout
    assert "unchanged since: 3 of 4 files" in again.stdout
    assert "t/s: was made anew, 3 files, 25 messages" in again.stdout
    assert run("verify", url, *how, "--ignore", "unlisted").exit_code == 0

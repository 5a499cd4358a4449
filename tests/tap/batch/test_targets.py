"""Targets that load the batches: singer-sdk's own reader, our target, and target-postgres as people install it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, ClassVar

import psycopg
import pytest
from singer_sdk import BatchSink, Target

from singerlake.lake import Lake
from target_singerlake.target import TargetSingerlake
from tests.lakes import activate_version_line, build_stream, record_line
from tests.processes.signals import signals_kept
from tests.servers.s3 import ACCESS_KEY_ID, REGION, SECRET_ACCESS_KEY, S3Server
from tests.tap.batch.support import batch_config, both
from tests.tap.runs import V1, V2, Output, replay
from tests.target.support import TAP, kept
from tools.nycflights import flights as real_flights
from tools.postgres import Server, postgres_server

FOLDERS = ["plain", "with space", "ü%41 #&+"]


class Taken(BatchSink):
    """Keeps what it is given."""

    records: ClassVar[list[Any]] = []

    def process_batch(self, context: dict[str, Any]) -> None:
        self.records.extend(context["records"])


class TakingTarget(Target):
    """A target of singer-sdk that has nothing of its own."""

    name = "taking-target"
    config_jsonschema: ClassVar[dict[str, Any]] = {"properties": {}}
    default_sink_class = Taken


@pytest.mark.parametrize(
    "encoding", [("jsonl", "gzip"), ("jsonl", "none"), ("parquet", "gzip"), ("parquet", "none")], ids="-".join
)
@pytest.mark.parametrize("folder", FOLDERS)
def test_singer_sdk_reads_the_files(
    flights: Lake, root: Path, tmp_path: Path, folder: str, encoding: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = batch_config(tmp_path / folder, format=encoding[0], compression=encoding[1])
    records, batches = both(root, tmp_path, batch_config=config)
    monkeypatch.setattr(Taken, "records", [])
    with signals_kept(), redirect_stdout(io.StringIO()) as out:
        TakingTarget(config={}).listen(io.StringIO(batches.text.decode()))
    assert Taken.records == records.records()
    assert json.loads(out.getvalue().splitlines()[-1]) == records.state


def captured(root: Path, output: Output, **settings: Any) -> None:
    with signals_kept(), redirect_stdout(io.TextIOWrapper(io.BytesIO(), encoding="utf-8")):
        TargetSingerlake(config={"lake_root": str(root), "tap_id": TAP, **settings}).listen(io.BytesIO(output.text))


@pytest.mark.parametrize("folder", [*FOLDERS, "what?"])
def test_our_target_takes_its_own_tap_s_batches(lake: Lake, root: Path, tmp_path: Path, folder: str) -> None:
    time = "2026-01-01T00:00:00.123456Z"
    lines = [
        record_line("s", {"id": 1, "d": 1.10}, time_extracted=time),
        b'{"type":"RECORD","stream":"s","record":{"id":12345678901234567890123456789, "n": NaN},"version":7}',
        activate_version_line("s", 7),
        record_line("s", {"id": 3, "s": "\ud800 ü"}, version=7),
    ]
    build_stream(lake, "tap-a", "s", V1, lines)
    build_stream(lake, "tap-a", "s", V2, [{"id": 4}])
    by_record, by_batch = both(root, tmp_path, batch_config=batch_config(tmp_path / folder))
    captured(tmp_path / "a", by_record)
    captured(tmp_path / "b", by_batch)
    ways = [[json.loads(line, parse_float=str) for line in kept(tmp_path / each, "s")] for each in "ab"]
    assert [json.dumps(message) for message in ways[0]] == [json.dumps(message) for message in ways[1]]


def test_batches_go_through_s3(s3: S3Server, tmp_path: Path) -> None:
    for bucket in ("lake", "batches"):
        s3.create_bucket(bucket)
    settings = {
        "aws_access_key_id": ACCESS_KEY_ID,
        "aws_secret_access_key": SECRET_ACCESS_KEY,
        "aws_region": REGION,
        "s3_endpoint_url": s3.endpoint_url,
    }
    lake = Lake.open("s3://lake/here", s3.settings())
    build_stream(lake, "tap-a", "a/b s", V1, [{"id": number} for number in range(90)], file_size=40)
    config = batch_config("s3://batches/some where", prefix="p-")
    records = replay("s3://lake/here", **settings)
    s3.drop_reply("PUT", times=1)
    batches = replay("s3://lake/here", batch_config=config, **settings)
    urls = [url for message in batches.of("BATCH") for url in message["manifest"]]
    assert len(urls) == len(set(urls)) == 3
    assert all(url.startswith("s3://batches/some where/p-singerlake-batch-") for url in urls)
    captured(tmp_path / "a", records)
    captured(tmp_path / "b", batches, **settings)
    ways = [[json.loads(line) for line in kept(tmp_path / each, "a/b s")] for each in "ab"]
    assert len(ways[0]) == 90
    assert ways[0] == ways[1]


def test_a_bucket_that_is_not_there_is_named_before_any_batch(s3: S3Server, flights: Lake, root: Path) -> None:
    settings = {"aws_access_key_id": ACCESS_KEY_ID, "aws_secret_access_key": SECRET_ACCESS_KEY, "aws_region": REGION}
    with pytest.raises(Exception, match="bucket does not exist") as met:
        replay(root, batch_config=batch_config("s3://none/x"), s3_endpoint_url=s3.endpoint_url, **settings)
    assert met.value.output.of("BATCH") == met.value.output.of("STATE") == []  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def target_postgres(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MeltanoLabs' target in an environment of its own, as Meltano makes one."""
    home = tmp_path_factory.mktemp("target-postgres")
    venv.create(home, with_pip=True)
    install = [home / "bin" / "python", "-m", "pip", "install", "--quiet", "meltanolabs-target-postgres==0.8.1"]
    subprocess.run(install, check=True)
    return home / "bin" / "target-postgres"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with postgres_server() as running:
        yield running


@pytest.mark.soak
@pytest.mark.skipif(sys.version_info >= (3, 14), reason="target-postgres has no release for it")
def test_target_postgres_has_the_same_rows_either_way(
    lake: Lake, root: Path, tmp_path: Path, target_postgres: Path, server: Server
) -> None:
    frame = real_flights()[:20_000]
    rows = [{"id": number, **row} for number, row in enumerate(json.loads(frame.to_json(orient="records")))]
    kinds = {
        name: {"type": ["null", "string" if isinstance(value, str) else "number"]} for name, value in rows[0].items()
    }
    schema = {"type": "object", "properties": {**kinds, "id": {"type": "integer"}}}
    build_stream(lake, "tap-a", "flights", schema, rows, file_size=8000, key_properties=["id"])
    records, batches = both(root, tmp_path / "out")
    found = []
    for schema_name, output in (("by_record", records), ("by_batch", batches)):
        config = tmp_path / f"{schema_name}.json"
        settings = {"host": server.host, "port": server.port, "user": server.user, "password": server.password}
        more = {
            "database": server.database,
            "default_target_schema": schema_name,
            "add_record_metadata": False,
            "activate_version": False,
        }
        config.write_text(json.dumps({**settings, **more}))
        subprocess.run(
            [target_postgres, "--config", config], input=output.text, check=True, capture_output=True, timeout=600
        )
        with psycopg.connect(server.dsn) as connection:
            columns = ", ".join(f'"{name}"' for name in schema["properties"])
            query = f"SELECT {columns} FROM {schema_name}.flights ORDER BY id"
            found.append(connection.execute(query).fetchall())  # type: ignore[arg-type]
    assert len(found[0]) == 20_000
    assert found[0] == found[1]

"""Eight processes that commit to one stream at once: every file is there exactly once."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import pytest

from singerlake.aws.settings import S3Settings
from singerlake.clock import random_id
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state.model import StreamSchema
from singerlake.lake import Lake
from singerlake.settings import StoreSettings
from singerlake.singer_file import Spool, compress_member
from singerlake.stores.writer import StreamWriter, Upload
from tests.fakes import START
from tests.format.state.test_fold import check_log
from tests.processes.forked import FORKED
from tests.servers.s3 import S3Server

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
VERSION = schema_hash(SCHEMA)
PROCESSES = 8
COMMITS = 10


@dataclass(frozen=True)
class Place:
    """A lake root, and what reaches it and its manifest store."""

    root: str
    kind: str
    s3: S3Settings | None = None
    stores: StoreSettings | None = None

    def writer(self, name: str) -> StreamWriter:
        return Lake.open(self.root, self.s3, self.stores).stream("t", "s").writer(writer_id=name, store=self.kind)


def work(place: Place, folder: str, name: str, commits: int) -> None:
    writer = place.writer(name)
    writer.open()
    for number in range(commits):
        header = FileHeader(id=random_id(), created="2026", run=name, seq=number)
        spool = Spool(Path(folder) / header.id, b'{"type":"SCHEMA","stream":"s","schema":{}}', header, level=1)
        raw = b'{"type":"RECORD","stream":"s","record":{"n":"%b-%d"}}\n' % (name.encode(), number)
        spool.append(compress_member(raw, 1), raw_bytes=len(raw), messages=1, records=1)
        path = layout.file_path("s", VERSION, START, START, header.id)
        file = spool.describe(path=path, version=VERSION, first="2026", last="2026")
        writer.submit([Upload(spool.path, file, StreamSchema(schema=SCHEMA))])
    writer.finish()


PLACES = (
    "local lockfile together",
    "s3 lockfile before",
    "local log together",
    "s3 log before",
    "local merge together",
    "s3 merge before",
    "local dynamodb together",
    "s3 postgres together",
)
"""Where the lake is, which manifest store keeps it, and whether the stream was born before or by all at once."""


@pytest.fixture(
    params=[*PLACES[:2], *(pytest.param(each, marks=pytest.mark.soak) for each in PLACES[2:6]), *PLACES[6:]]
)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    where, kind, births = request.param.split()
    root, s3 = str(tmp_path / "lake"), None
    stores = StoreSettings()
    if where == "s3":
        server: S3Server = request.getfixturevalue("s3")
        root, s3 = f"s3://{server.create_bucket('processes')}/{random_id()}", server.settings()
    if kind == "dynamodb":
        database, table = request.getfixturevalue("dynamodb_local_table")
        s3 = database.settings()
        stores = StoreSettings(dynamodb_table=table, dynamodb_endpoint_url=database.endpoint_url)
    if kind == "postgres":
        url, schema = request.getfixturevalue("postgres_schema")
        stores = StoreSettings(postgres_url=url, postgres_schema=schema)
    place = Place(root, kind, s3, stores)
    if births == "before":
        place.writer("first").open()
    return place


@pytest.mark.sampled(place=1)
def test_eight_processes_of_ten_commits_lose_nothing_and_double_nothing(tmp_path: Path, place: Place) -> None:
    spools = tmp_path / "spools"
    spools.mkdir()
    processes = [
        FORKED.Process(target=work, args=(place, str(spools), f"writer{number}", COMMITS))
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * PROCESSES

    stream = Lake.open(place.root, place.s3, place.stores).stream("t", "s")
    manifest = stream.snapshot()
    check_log(manifest)
    lines = []
    for file in manifest.files:
        with stream.lake.storage.open(stream.prefix + file.path) as stored:
            lines += gzip.decompress(stored.read()).splitlines()[1:]
    expected = {
        b'{"type":"RECORD","stream":"s","record":{"n":"writer%d-%d"}}' % (process, number)
        for process in range(PROCESSES)
        for number in range(COMMITS)
    }
    assert len(lines) == len(expected)
    assert set(lines) == expected
    if place.kind != "merge":  # which gives many commits their places in one step
        assert manifest.transaction.number == PROCESSES * COMMITS

"""Eight processes that commit to one stream at once: every file is there exactly once."""

from __future__ import annotations

import gzip
import multiprocessing
from pathlib import Path

import pytest

from singerlake.clock import random_id
from singerlake.format import layout
from singerlake.format.hashing import schema_hash
from singerlake.format.model import StreamSchema
from singerlake.lake import Lake
from singerlake.singer_file import FileHeader, Spool, compress_member
from singerlake.storage.s3 import S3Settings
from tests.fakes import START
from tests.format.test_fold import check_log
from tests.servers.s3 import S3Server

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}
VERSION = schema_hash(SCHEMA)
PROCESSES = 8
COMMITS = 20


def work(lake_root: str, settings: S3Settings | None, folder: str, name: str, commits: int) -> None:
    writer = Lake.open(lake_root, settings).stream("t", "s").writer(writer_id=name)
    writer.open()
    for number in range(commits):
        header = FileHeader(id=random_id(), created="2026", run=name, seq=number)
        spool = Spool(Path(folder) / header.id, b'{"type":"SCHEMA","stream":"s","schema":{}}', header, level=1)
        raw = b'{"type":"RECORD","stream":"s","record":{"n":"%b-%d"}}\n' % (name.encode(), number)
        spool.append(compress_member(raw, 1), raw_bytes=len(raw), messages=1, records=1)
        path = layout.file_path("s", VERSION, START, START, header.id)
        file = spool.describe(path=path, version=VERSION, first="2026", last="2026")
        writer.publish(spool.path, file, StreamSchema(schema=SCHEMA))


@pytest.fixture(params=["local", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, S3Settings | None]:
    """A lake root and what reaches it."""
    if request.param == "local":
        return str(tmp_path / "lake"), None
    server: S3Server = request.getfixturevalue("s3")
    bucket = server.create_bucket("processes")
    return f"s3://{bucket}/{random_id()}", server.settings()


@pytest.mark.parametrize("births", ["together", "before"])
def test_eight_processes_of_twenty_commits_lose_nothing_and_double_nothing(
    tmp_path: Path, place: tuple[str, S3Settings | None], births: str
) -> None:
    (root, settings), spools = place, tmp_path / "spools"
    spools.mkdir()
    if births == "before":
        Lake.open(root, settings).stream("t", "s").writer(writer_id="first").open()
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=work, args=(root, settings, str(spools), f"writer{number}", COMMITS))
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * PROCESSES

    stream = Lake.open(root, settings).stream("t", "s")
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
    assert manifest.transaction.number == PROCESSES * COMMITS

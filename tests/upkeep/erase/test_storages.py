"""Erasing in lakes on a local disk and in S3: files of many members, of one large one, and of foreign make."""

from __future__ import annotations

import gzip
import os
import uuid
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from singerlake.adapters import open_storage
from singerlake.format import layout
from singerlake.format.lines.holes import HOLE
from singerlake.lake import Lake
from singerlake.singer_file import MEMBER_BYTES, compress_member
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.erase.erase import Erased, erase_messages
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from singerlake.upkeep.vacuum.vacuum import vacuum_stream
from singerlake.upkeep.verify import verify_stream
from singerlake.work.processes import Processes
from tests.lakes import build_stream, record_line
from tests.servers.s3 import S3Server
from tests.upkeep.erase.erasing import read, where, with_holes
from tests.upkeep.shelf import SCHEMA, header, schema_line

MIB = 1 << 20
PREFIX = layout.stream_prefix("t", "s")


@pytest.fixture(params=["local", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    if request.param == "local":
        return Lake.open(str(tmp_path / "a lake"))
    s3: S3Server = request.getfixturevalue("s3")
    bucket = s3.create_bucket(f"erase-{uuid.uuid4().hex[:12]}")
    return Lake.open(f"s3://{bucket}/a lake/%41", s3.settings())


def context_of(lake: Lake) -> StreamContext:
    return StreamContext(lake.storage, "t", "s", lake.clock, lake.ids, lake.stream("t", "s").store())


def erase(lake: Lake, *numbers: int) -> Erased:
    return erase_messages(context_of(lake), where(*numbers), who="ada", dry_run=False)


def lines(*sizes: int) -> list[bytes]:
    """Records of about so many bytes that hardly compress."""
    return [record_line("s", {"n": n, "text": os.urandom(size // 2).hex()}) for n, size in enumerate(sizes)]


def stored(lake: Lake) -> list[bytes]:
    """The bytes of all listed files, in order."""
    found = [lake.storage.get(PREFIX + file.path) for file in lake.stream("t", "s").snapshot().files]
    return [each.body for each in found if each is not None]


def check(lake: Lake, text: list[bytes], *gone: int) -> None:
    seen = [line for body in stored(lake) for line in gzip.decompress(body).splitlines() if b'"SCHEMA"' not in line]
    assert seen == with_holes(text, *gone)
    assert read(lake) == [(offset, line) for offset, line in enumerate(text) if offset not in gone]
    assert verify_stream(lake.storage, "t", "s", lake.stream("t", "s").state).findings == ()


def test_members_without_such_a_record_are_copied_byte_for_byte(lake: Lake) -> None:
    text = lines(*[3000] * 12)
    build_stream(lake, "t", "s", SCHEMA, text, file_size=12, member_size=3)
    (old,) = lake.stream("t", "s").snapshot().files
    (before,) = stored(lake)
    erase(lake, 4)
    check(lake, text, 4)
    (new,) = lake.stream("t", "s").snapshot().files
    (after,) = stored(lake)
    assert [count for _, count in new.members] == [count for _, count in old.members]
    ends = [start for start, _ in old.members[1:]] + [old.bytes]
    copied = [before[start:end] for (start, _), end in zip(old.members, ends, strict=True)]
    begins = [start for start, _ in new.members[1:]] + [new.bytes]
    made = [after[start:end] for (start, _), end in zip(new.members, begins, strict=True)]
    assert [one == other for one, other in zip(copied, made, strict=True)] == [True, False, True, True]
    # The SCHEMA message and the writer's header go along.
    assert after.endswith(copied[2] + copied[3])
    assert before[: old.members[0][0]] in after


def test_a_large_file_is_sent_in_parts(lake: Lake) -> None:
    text = lines(*[2 * MIB] * 12, 100, 200)
    build_stream(lake, "t", "s", SCHEMA, text, file_size=14, member_size=4)
    erase(lake, 5, 13)
    check(lake, text, 5, 13)
    vacuum_stream(context_of(lake), target_bytes=128 * MIB, threads=2)
    erase(lake, 0)
    check(lake, text, 0, 5, 13)


def test_a_member_that_holds_all_of_a_large_file_is_written_as_several(lake: Lake) -> None:
    text = lines(*[MIB] * 30, 100)
    build_stream(lake, "t", "s", SCHEMA, text, file_size=31, member_size=31)
    (old,) = lake.stream("t", "s").snapshot().files
    assert len(old.members) == 1
    erase(lake, 30)
    check(lake, text, 30)
    (new,) = lake.stream("t", "s").snapshot().files
    assert len(new.members) > 1
    assert max(count for _, count in new.members) * MIB <= 3 * MEMBER_BYTES


@pytest.mark.parametrize("lake", ["local"], indirect=True)
def test_other_processes_read_and_write_the_files(lake: Lake) -> None:
    text = lines(*[200] * 24)
    build_stream(lake, "t", "s", SCHEMA, text, file_size=2)
    with closing(Processes(partial(open_storage, lake.storage.url), 2)) as engine:
        done = erase_messages(context_of(lake), where(1, 9, 20), who="ada", dry_run=False, engine=engine)
    assert (done.records, done.findings) == (3, ())
    check(lake, text, 1, 9, 20)


def foreign(lake: Lake, *members: bytes, extra: bytes | None = None) -> None:
    """A stream of one file of these gzip members, as another program may write it, listed by a rebuild."""
    body = compress_member(members[0], 1, extra=extra) + b"".join(compress_member(each, 1) for each in members[1:])
    path = layout.file_path("s", "v", lake.clock.now(), lake.clock.now(), "a0000000000000o0")
    lake.storage.put(PREFIX + path, body)
    repair_stream(context_of(lake), RepairOptions())


def body_of(text: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in text)


@pytest.mark.parametrize("extra", [None, header(7)], ids=["without header", "with header"])
def test_a_file_whose_schema_shares_its_member_with_records(lake: Lake, extra: bytes | None) -> None:
    text = lines(*[50] * 6)
    foreign(lake, schema_line() + body_of(text[:3]), b"", body_of(text[3:]), extra=extra)
    before = lake.stream("t", "s").snapshot()
    assert before.files[0].members[0][0] == 0
    erase(lake, 1)
    check(lake, text, 1)
    erase(lake, 4, 5)
    check(lake, text, 1, 4, 5)
    # It stays where a rebuild put it, by the header that it had.
    lake.storage.delete(layout.manifest_key("t", "s"))
    repair_stream(context_of(lake), RepairOptions())
    check(lake, text, 1, 4, 5)
    if extra is not None:
        (body,) = stored(lake)
        assert extra in body


def test_lines_that_run_over_members(lake: Lake) -> None:
    text = lines(*[50] * 6)
    whole = body_of(text)
    foreign(lake, schema_line(), whole[:200], whole[200:310], whole[310:])
    (file,) = lake.stream("t", "s").snapshot().files
    assert len(file.members) < 3
    erase(lake, 2)
    check(lake, text, 2)


def test_schemas_further_on_stay(lake: Lake) -> None:
    text = lines(*[50] * 6)
    foreign(lake, schema_line() * 2 + body_of(text[:2]) + schema_line() + body_of(text[2:4]), body_of(text[4:]))
    erase(lake, 1, 2)
    check(lake, text, 1, 2)
    (body,) = stored(lake)
    kept = [line == HOLE[:-1] for line in gzip.decompress(body).splitlines()]
    assert [at for at, hole in enumerate(kept) if hole] == [3, 5]


def test_messages_of_every_spelling_keep_their_bytes(lake: Lake) -> None:
    odd = [
        b'  {"type":"RECORD","stream":"s","record":{"n":1.0}}  ',
        b'{"\\u0074ype":"RECORD","stream":"s","record":{"n":1e0,"x":NaN}}',
        b'{"type":"RECORD","stream":"s","record":{"n":5,"n":1}}',
        b'{"type":"RECORD","stream":"s","record":{"n":"1","x":"\\ud800"}}\r',
        b'{"type":"RECORD","stream":"s","record":{"n":12345678901234567890123}}',
        b'{"type":"RECORD","stream":"s","record":{"n":null,"x":{"type":"ERASED"}}}',
        b'{"type":"ACTIVATE_VERSION","stream":"s","version":1,"n":1}',
    ]
    foreign(lake, schema_line() + body_of(odd))
    assert len(lake.stream("t", "s").snapshot().files) == 1
    erase(lake, 1)
    (body,) = stored(lake)
    seen = gzip.decompress(body).split(b"\n")[1:-1]
    assert seen == with_holes(odd, 0, 1, 2)

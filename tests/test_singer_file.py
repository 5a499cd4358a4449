"""Data files: what goes in comes out, from any member on, and damage never passes for a short file."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.errors import BrokenFileError
from singerlake.format.extra_fields import FileHeader
from singerlake.format.lines.messages import is_schema_line
from singerlake.format.state.files.data_file import DataFile
from singerlake.singer_file import Block, Spool, compress_member, read_blocks

SCHEMA = b'{"type": "SCHEMA", "stream": "s", "schema": {"properties": {}}}\n'
HEADER = FileHeader(id="0123456789abcdef", created="2026-01-01T00:00:00.000000Z", run="r", seq=7)


def lines(count: int, start: int = 0) -> list[bytes]:
    return [b'{"type":"RECORD","stream":"s","record":{"n":%d}}\n' % n for n in range(start, start + count)]


def written(path: Path, members: list[list[bytes]], *, level: int = 1, offset: int = 0) -> DataFile:
    spool = Spool(path, SCHEMA, HEADER, level=level)
    for member in members:
        raw = b"".join(member)
        spool.append(compress_member(raw, level), raw_bytes=len(raw), messages=len(member), records=len(member))
    new = spool.describe(path="v/x", version="v", first="", last="")
    return DataFile(offset=offset, **msgspec.structs.asdict(new))


def read(path: Path, file: DataFile, *, member: int = 0) -> list[Block]:
    with path.open("rb") as stream:
        stream.seek(file.members[member][0] if member else 0)
        return list(read_blocks(stream, file, member=member))


@pytest.mark.parametrize("level", range(1, 10))
def test_a_file_reads_back_as_the_very_lines_that_went_in(tmp_path: Path, level: int) -> None:
    path = tmp_path / "x.singer.gz"
    kept = lines(50)
    file = written(path, [kept[:20], kept[20:]], level=level, offset=100)
    blocks = read(path, file)
    assert b"".join(block.data for block in blocks) == b"".join(kept)
    assert blocks[0].offset == 100
    assert sum(block.messages for block in blocks) == 50


def test_every_ordinary_gzip_reader_reads_it_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.singer.gz"
    file = written(path, [lines(5), lines(5, 5)])
    text = SCHEMA + b"".join(lines(10))
    assert gzip.decompress(path.read_bytes()) == text
    assert subprocess.run(["zcat", path], capture_output=True, check=True).stdout == text
    assert file.raw_bytes == len(text)
    assert file.bytes == path.stat().st_size


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.data())
@settings(max_examples=30)
def test_reading_from_a_member_gives_the_rest_under_the_same_offsets(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("file") / "x"
    starts = [sum(counts[:number]) for number in range(len(counts))]
    file = written(path, [lines(count, start) for count, start in zip(counts, starts, strict=True)], offset=10)
    member = data.draw(st.integers(0, len(counts) - 1))
    blocks = read(path, file, member=member)
    assert blocks[0].offset == 10 + starts[member]
    assert b"".join(block.data for block in blocks) == b"".join(lines(sum(counts) - starts[member], starts[member]))


@given(st.integers(0, 10))
def test_a_block_is_cut_at_any_message(count: int) -> None:
    block = Block(b"".join(lines(10)), 5, 10)
    before, after = block.first(count), block.after(count)
    assert before.data + after.data == block.data
    assert (before.messages, after.messages, after.offset) == (count, 10 - count, 5 + count)


def test_schema_messages_further_on_are_left_out_and_records_that_hold_the_word_are_not(tmp_path: Path) -> None:
    word = b'{"type":"RECORD","stream":"s","record":{"type":"SCHEMA","x":"\\"SCHEMA\\""}}\n'
    carriage = b'{"type":"RECORD",\r"stream":"s","record":{"a":"SCHEMA"}}\r\n'
    path = tmp_path / "x"
    file = written(path, [[word, carriage]])
    with path.open("ab") as stream:
        stream.write(compress_member(SCHEMA, 1) + compress_member(word, 1))
    longer = msgspec.structs.replace(file, messages=3, members=(*file.members, (file.bytes, 1)))
    assert b"".join(block.data for block in read(path, longer)) == word + carriage + word
    assert not is_schema_line(word)
    assert is_schema_line(SCHEMA)


DAMAGE = {
    "last byte gone": lambda data, file: data[:-1],
    "checksum gone": lambda data, file: data[:-8],
    "cut in the middle": lambda data, file: data[: len(data) // 2],
    "cut where a member begins": lambda data, file: data[: file.members[1][0]],
    "only the schema left": lambda data, file: data[: file.members[0][0]],
    "empty": lambda data, file: b"",
    "garbage behind": lambda data, file: data + b"garbage",
    "zeroes behind": lambda data, file: data + bytes(512),
    "a member twice": lambda data, file: data + data[file.members[1][0] :],
    "a flipped bit": lambda data, file: data[:-20] + bytes((data[-20] ^ 1,)) + data[-19:],
    "wrong checksum": lambda data, file: data[:-8] + b"\0\0\0\0" + data[-4:],
    "not gzip": lambda data, file: b"plain text\n" * 30,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "x"
    file = written(path, [lines(40), lines(40, 40)])
    stream = io.BytesIO(DAMAGE[damage](path.read_bytes(), file))
    with pytest.raises(BrokenFileError, match="key='raw/t/s/v/x'"):
        list(read_blocks(stream, file, key="raw/t/s/v/x"))


def test_a_file_that_ends_in_the_middle_of_a_line_is_broken(tmp_path: Path) -> None:
    path = tmp_path / "x"
    file = written(path, [[b'{"type":"RECORD"']])
    with pytest.raises(BrokenFileError, match="middle of a line"):
        read(path, file)


def test_a_line_far_longer_than_a_block_comes_out_whole(tmp_path: Path) -> None:
    long = b'{"type":"RECORD","stream":"s","record":{"x":"' + b"a" * (20 << 20) + b'"}}\n'
    path = tmp_path / "x"
    file = written(path, [[*lines(1), long, *lines(1)]])
    assert b"".join(block.data for block in read(path, file)) == b"".join([*lines(1), long, *lines(1)])


def test_a_spool_never_writes_over_another(tmp_path: Path) -> None:
    written(tmp_path / "x", [lines(1)])
    with pytest.raises(FileExistsError):
        Spool(tmp_path / "x", SCHEMA, HEADER, level=1)


def test_the_schema_message_stands_in_a_member_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "x"
    file = written(path, [lines(3)])
    assert json.loads(gzip.decompress(path.read_bytes()[: file.members[0][0]]))["type"] == "SCHEMA"

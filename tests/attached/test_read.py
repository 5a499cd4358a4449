"""What ``LakeStream.attached`` and ``LakeStream.open_file`` give, and what they refuse."""

from __future__ import annotations

import io
import uuid
from pathlib import Path

import msgspec
import pytest

from singerlake.attached.read import open_checked
from singerlake.errors import BrokenFileError, MissingFileError, SettingError, UnknownNameError
from singerlake.format.state.attached import Attached
from singerlake.lake import Lake
from singerlake.stream import LakeStream
from tests.attached.lakes import attach, sha256
from tests.servers.s3 import S3Server

PHOTO, OTHER = b"\xff\xd8 a photo " * 1000, b"another"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(str(tmp_path / "lake"))


@pytest.fixture
def stream(lake: Lake) -> LakeStream:
    attach(lake, "t", "s", [[PHOTO], [], [OTHER, PHOTO], [None], [b""]], file_size=3)
    return lake.stream("t", "s")


def key_of(stream: LakeStream, row: Attached) -> str:
    path = row.path()
    assert path is not None
    return stream.prefix + path


def test_rows_come_with_the_offset_of_their_record(stream: LakeStream) -> None:
    found = [(offset, row.sha256, row.bytes) for offset, row in stream.attached()]
    assert found == [
        (0, sha256(PHOTO), len(PHOTO)),
        (2, sha256(OTHER), len(OTHER)),
        (2, sha256(PHOTO), len(PHOTO)),
        (3, None, None),
        (4, sha256(b""), 0),
    ]


def test_the_checksum_of_a_file_that_could_not_be_read_opens_nothing(stream: LakeStream) -> None:
    (row,) = [row for offset, row in stream.attached() if offset == 3]
    for file in (row, row.sha256):
        with pytest.raises(MissingFileError, match="could not be read when its record was captured"):
            stream.open_file(file)  # type: ignore[arg-type]


@pytest.mark.parametrize(("begin", "offsets"), [(1, [2, 2, 3, 4]), (2, [2, 2, 3, 4]), (3, [3, 4]), (5, []), (99, [])])
def test_rows_are_given_from_an_offset_on(stream: LakeStream, begin: int, offsets: list[int]) -> None:
    assert [offset for offset, _ in stream.attached(begin)] == offsets


def test_a_stream_without_attached_files_gives_no_row(lake: Lake) -> None:
    attach(lake, "t", "bare", [[], []])
    assert list(lake.stream("t", "bare").attached()) == []


@pytest.mark.parametrize("body", [PHOTO, OTHER, b""])
def test_a_file_is_opened_by_its_checksum(stream: LakeStream, body: bytes) -> None:
    with stream.open_file(sha256(body)) as opened:
        assert opened.read() == body
    with stream.open_file(f" {sha256(body).upper()}\n") as opened:
        assert opened.read() == body


def test_a_file_is_opened_by_its_row_without_a_look_at_the_state(stream: LakeStream) -> None:
    rows = [row for _, row in stream.attached() if row.sha256]
    stream.lake.storage.delete(stream.prefix + "manifest.json")
    bodies = []
    for row in rows:
        with stream.open_file(row) as opened:
            bodies.append(opened.read())
    assert bodies == [PHOTO, OTHER, PHOTO, b""]


def test_a_stream_is_read_in_pieces_of_any_size_and_cannot_seek(stream: LakeStream) -> None:
    with stream.open_file(sha256(PHOTO)) as opened:
        assert not opened.seekable()
        pieces = list(iter(lambda: opened.read(777), b""))
    assert b"".join(pieces) == PHOTO
    assert opened.closed
    with io.BufferedReader(stream.open_file(sha256(PHOTO))) as opened:  # type: ignore[type-var]
        assert opened.readline() == PHOTO


@pytest.mark.parametrize("text", ["", "photo.jpg", "0" * 63, "0" * 65, "g" * 64, "0" * 64 + ".2", "../" + "0" * 61])
def test_what_is_no_checksum_is_refused(stream: LakeStream, text: str) -> None:
    with pytest.raises(SettingError, match="64 hexadecimal digits"):
        stream.open_file(text)


def test_a_checksum_that_no_record_has_is_refused(stream: LakeStream) -> None:
    with pytest.raises(UnknownNameError, match="no record of the stream has an attached file"):
        stream.open_file("0" * 64)


def test_the_file_of_another_stream_is_not_found(lake: Lake, stream: LakeStream) -> None:
    attach(lake, "t", "others", [[b"of another"]])
    with pytest.raises(UnknownNameError):
        stream.open_file(sha256(b"of another"))


def test_a_file_that_could_not_be_captured_is_not_there(stream: LakeStream) -> None:
    (row,) = [row for _, row in stream.attached() if row.sha256 is None]
    with pytest.raises(MissingFileError, match="could not be read when its record was captured"):
        stream.open_file(row)


def test_an_object_that_is_gone_is_told_of(stream: LakeStream) -> None:
    row = next(row for _, row in stream.attached())
    stream.lake.storage.delete(key_of(stream, row))
    for file in (row, sha256(PHOTO)):
        with pytest.raises(MissingFileError, match=f"attached to a record is not there.*{sha256(PHOTO)}"):
            stream.open_file(file)


def test_a_row_of_before_leads_to_the_object_that_took_the_place_of_its_own(stream: LakeStream) -> None:
    row = next(row for _, row in stream.attached())
    before = msgspec.structs.replace(row, copy=7)
    with stream.open_file(before) as opened:
        assert opened.read() == PHOTO


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        (PHOTO[:-1] + b"!", "its bytes are not those that were attached"),
        (PHOTO[:-1], f"has {len(PHOTO) - 1:,} bytes of the {len(PHOTO):,} that were attached"),
        (PHOTO + b"!", f"has more than the {len(PHOTO):,} bytes that were attached"),
        (b"", f"has 0 bytes of the {len(PHOTO):,} that were attached"),
    ],
)
@pytest.mark.parametrize("size", [-1, 100, len(PHOTO), 1 << 22])
def test_other_bytes_than_were_attached_are_refused(stream: LakeStream, stored: bytes, message: str, size: int) -> None:
    row = next(row for _, row in stream.attached())
    stream.lake.storage.put(key_of(stream, row), stored)
    with stream.open_file(row) as opened:
        with pytest.raises(BrokenFileError, match=message):
            list(iter(lambda: opened.read(size), b""))
        with pytest.raises(BrokenFileError, match=message):
            opened.read(size)


def test_a_part_of_a_file_can_be_read_and_left(lake: Lake) -> None:
    body = b"x" * (3 << 20)
    lake.storage.put("a", body)
    with open_checked(lake.storage, "a", "0" * 64, len(body)) as opened:
        assert opened.read(10) == b"x" * 10


def test_files_come_from_s3(s3: S3Server) -> None:
    lake = Lake.open(f"s3://{s3.create_bucket(f'read-{uuid.uuid4().hex[:12]}')}/lake", s3.settings())
    large = b"0123456789abcdef" * (1 << 18)
    attach(lake, "t", "s", [[PHOTO, b""], [large]])
    stream = lake.stream("t", "s")
    for body in (PHOTO, b"", large):
        with stream.open_file(sha256(body)) as opened:
            assert opened.read() == body
    s3.calm()
    s3.truncate(times=1, key_contains="_files/")
    with stream.open_file(sha256(large)) as opened:
        assert opened.read() == large, "a read that broke off goes on"
    s3.calm()
    row = next(row for _, row in stream.attached())
    lake.storage.delete(key_of(stream, row))
    with pytest.raises(MissingFileError, match="attached to a record is not there"):
        stream.open_file(row)

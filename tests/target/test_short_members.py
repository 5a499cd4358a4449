"""Lines of many streams that wait in memory: which of them become short members, when, and how they are handed over."""

from __future__ import annotations

import gzip
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from singerlake.clock import random_id
from singerlake.format.lines.times import Span
from target_singerlake.files.growing import Compressor, GrowingFile, LakeId
from target_singerlake.files.open_files import OpenFiles
from target_singerlake.input.schema import schema_of
from target_singerlake.settings import settings_of
from target_singerlake.state import HeldStates
from tests.fakes import START

MEMORY, BLOCK = 8 << 20, 1 << 20
SHORT, LONG = 10_000, 400_000


class Counting(Compressor):
    """Notes how many bytes each piece of work has."""

    def __init__(self) -> None:
        super().__init__(2, MEMORY)
        self.handed_over: list[int] = []

    def _begin(self, size: int) -> int:
        self.handed_over.append(size)
        return super()._begin(size)


class Captured:
    """Open files of ``count`` streams, and the closed ones."""

    def __init__(self, folder: Path, count: int, **settings: int) -> None:
        lake_id = LakeId(lambda: None, pytest.fail, MEMORY)
        lake_id.wait()
        self.compressor = Counting()
        self.closed: list[GrowingFile] = []
        self.names = [f"s{number}" for number in range(count)]
        self.sent = dict.fromkeys(self.names, b"")
        self.files = OpenFiles(
            settings_of({"lake_root": "x", "tap_id": "t", "max_memory_bytes": MEMORY, **settings}, {}),
            run_id="r",
            folder=folder,
            ids=random_id,
            lake_id=lake_id,
            compressor=self.compressor,
            states=HeldStates(),
            opened=lambda stream: None,
            closed=self.closed.append,
        )
        self.files.now, self.files.monotonic = START, 0.0
        for name in self.names:
            line = b'{"type":"SCHEMA","stream":"%s","schema":{"properties":{}}}' % name.encode()
            self.files.use_schema(schema_of(line, 1))

    def take_turns(self, rounds: int, size: int, *, random: bool = False) -> None:
        """``rounds`` lines of ``size`` bytes for each stream, in turn, as blocks of the input bring them; ``random``
        ones are hardly compressed."""
        since_block, some = 0, Random(1)
        for number in range(rounds):
            for name in self.names:
                filler = some.randbytes(size // 2).hex().encode() if random else b""
                line = (b"%s %d " % (name.encode(), number) + filler)[: size - 1].ljust(size - 1, b"x") + b"\n"
                time = (START + timedelta(seconds=number)).isoformat()
                self.files.add(name, line, 1, [time, time])
                self.sent[name] += line
                since_block += size
                if since_block >= BLOCK:
                    self.files.keep_within_memory(BLOCK)
                    since_block = 0

    def end(self) -> dict[str, GrowingFile]:
        """The file of each stream, whole."""
        self.files.close_all()
        for file in self.closed:
            file.finish()
        self.compressor.close()
        return {file.schema.stream: file for file in self.closed}


def members(file: GrowingFile) -> int:
    assert file.spool is not None
    return len(file.spool._members)


def test_short_members_of_several_streams_are_handed_over_together(tmp_path: Path) -> None:
    captured = Captured(tmp_path, 100)
    captured.take_turns(40, SHORT)
    together = len(captured.compressor.handed_over)
    ended = captured.end()
    short = sum(map(members, ended.values())) - len(ended)
    assert short > 4 * together
    assert max(captured.compressor.handed_over) < 2 << 20
    for name, file in ended.items():
        assert file.spool is not None
        text = gzip.decompress(file.spool.path.read_bytes())
        assert text.partition(b"\n")[2] == captured.sent[name]
        assert (file.messages, file.records, file.raw_bytes) == (40, 40, len(captured.sent[name]))


def test_long_members_are_compressed_side_by_side(tmp_path: Path) -> None:
    captured = Captured(tmp_path, 10)
    captured.take_turns(10, LONG)
    assert len(captured.compressor.handed_over) > 1
    captured.end()
    # Two threads have work at any time: what waits leaves as much room as several of them take.
    assert max(captured.compressor.handed_over) <= MEMORY // 4


def test_many_short_buffers_leave_less_room_than_few_long_ones(tmp_path: Path) -> None:
    room = {100: MEMORY - MEMORY // 3 - 2 * BLOCK, 4: MEMORY - 4 * (32 << 10) - 2 * BLOCK}
    most: dict[int, int] = {}
    for count, size in ((100, SHORT), (4, LONG)):
        captured = Captured(tmp_path, count)
        for _ in range(4_000_000 // (count * size) * 3):
            captured.take_turns(1, size)
            captured.files.keep_within_memory(BLOCK)
            most[count] = max(most.get(count, 0), captured.files.buffered)
        captured.end()
    assert room[100] * 0.7 < most[100] <= room[100] * 0.75
    assert most[4] <= room[4] * 0.5


def test_the_span_of_a_file_is_that_of_all_its_members(tmp_path: Path) -> None:
    captured = Captured(tmp_path, 100)
    captured.take_turns(40, SHORT)
    span: Span = START, START + timedelta(seconds=39)
    assert {file.extracted for file in captured.end().values()} == {span}


@pytest.mark.parametrize(("count", "left"), [(1, 1.0), (32, 0.875), (200, 2 / 3)])
def test_what_streams_take_beside_their_lines_counts_up_to_a_third(tmp_path: Path, count: int, left: float) -> None:
    captured = Captured(tmp_path, count)
    most = 0
    for _ in range(2 * MEMORY // (count * SHORT)):
        captured.take_turns(1, SHORT)
        captured.files.keep_within_memory(0)
        most = max(most, captured.files.buffered + captured.compressor.in_flight)
    captured.end()
    assert most <= left * MEMORY
    assert most > left * MEMORY * 0.4


@pytest.mark.parametrize(
    ("count", "size"), [(3, 2_000), pytest.param(12, 30_000, marks=pytest.mark.thorough), (3, 400_000)]
)
def test_files_of_streams_that_take_turns_are_closed_when_they_are_full(tmp_path: Path, count: int, size: int) -> None:
    limit = 1 << 20
    captured = Captured(tmp_path, count, max_file_bytes=limit)
    captured.take_turns(6 * limit // size, size, random=True)
    captured.end()
    for name in captured.names:
        files = [file for file in captured.closed if file.schema.stream == name]
        spooled = [file.spool.bytes for file in files if file.spool is not None]
        assert len(files) == len(spooled) > 2
        assert all(limit <= bytes <= 2 * limit + size for bytes in spooled[:-1])
        lines = b"".join(gzip.decompress(file.path.read_bytes()).partition(b"\n")[2] for file in files)
        assert lines == captured.sent[name]

"""Partitions: every message selected lies in exactly one, and they are of about one size."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from singerlake.arrow.plan.request import Request
from singerlake.arrow.plan.splits import (
    FEWER_BYTES,
    FILE_COST,
    LEAST_BYTES,
    MOST_BYTES,
    Split,
    pack,
    partition_bytes,
    splits,
)
from singerlake.format.state.files.data_file import DataFile

MIB = 1 << 20


def data_file(offset: int, messages: list[int], *, stored: int = MIB, raw: int = 8 * MIB, head: int = 300) -> DataFile:
    """A file whose members hold ``messages`` each, ``stored`` bytes each and ``raw`` decompressed."""
    return DataFile(
        id=f"id{offset}",
        path=f"v/{offset}",
        version="v",
        messages=sum(messages),
        records=sum(messages),
        bytes=head + stored * len(messages),
        raw_bytes=raw * len(messages),
        sha256="ab" * 32,
        first="",
        last="",
        members=tuple((head + stored * index, count) for index, count in enumerate(messages)),
        offset=offset,
    )


def stream(counts: list[list[int]]) -> list[DataFile]:
    files: list[DataFile] = []
    for messages in counts:
        files.append(data_file(files[-1].end if files else 0, messages))
    return files


def held(file: DataFile, piece: Split) -> tuple[tuple[int, int], ...]:
    """The members that lie in the stored bytes of a run."""
    return tuple(member for member in file.members if piece.start <= member[0] < piece.end)


def test_a_listed_checksum_that_is_none_is_held_against_the_file_all_the_same() -> None:
    file = data_file(0, [3])
    for text in ("", "ab", "x" * 64, "é", "\ud800"):
        (piece,) = splits([msgspec.structs.replace(file, sha256=text)], 0, 3, MIB)
        assert piece.sha256 not in (b"", bytes.fromhex(file.sha256))


@given(
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=6), max_size=5),
    st.integers(0, 40),
    st.integers(0, 60),
    st.integers(1, 40 * MIB),
)
@example([[1, 1, 2]], 3, 3, 1)
def test_every_message_selected_is_in_exactly_one_run_in_order(
    counts: list[list[int]], first: int, stop: int, target: int
) -> None:
    files = stream(counts)
    pieces = list(splits(files, first, stop, target))
    meant = [offset for piece in pieces for offset in range(piece.first, piece.stop)]
    end = files[-1].end if files else 0
    assert meant == list(range(first, min(stop, end)))
    assert [piece for packed in pack(pieces, target) for piece in packed] == pieces
    by_path = {file.path: file for file in files}
    for piece in pieces:
        whole = by_path[piece.path]
        members = held(whole, piece)
        begin = whole.members.index(members[0])
        assert members == whole.members[begin : begin + len(members)]
        assert piece.offset == whole.offset + sum(count for _, count in whole.members[:begin])
        assert piece.messages == sum(count for _, count in members)
        assert piece.offset <= piece.first < piece.stop <= piece.next_offset
        complete = members == whole.members
        assert piece.start == (0 if complete else members[0][0])
        assert piece.sha256 == (bytes.fromhex(whole.sha256) if complete else b"")
        following = whole.members[begin + len(members) :]
        assert piece.end == (following[0][0] if following else whole.bytes)
        assert piece.raw_bytes < 1.5 * target + 8 * MIB or len(members) == 1


@pytest.mark.parametrize(("cores", "partitions"), [(1, 8), (2, 8), (8, 8), (12, 12), (32, 32), (64, 64), (1000, 64)])
def test_one_large_file_feeds_all_cores(cores: int, partitions: int) -> None:
    large = data_file(0, [20_000] * 128)
    size = partition_bytes([large], 0, large.end, Request(cores=cores))
    cut = pack(splits([large], 0, large.end, size), size)
    assert len(cut) == partitions
    assert {len(partition) for partition in cut} == {1}
    assert sum(partition[0].messages for partition in cut) == 20_000 * 128
    members = {len(held(large, partition[0])) for partition in cut}
    assert max(members) - min(members) <= 1


@given(
    st.lists(st.lists(st.integers(1, 5), min_size=1, max_size=40), min_size=1, max_size=30),
    st.integers(1, 200),
)
def test_no_core_is_without_work_while_there_are_partitions_of_more_than_a_task_costs(
    counts: list[list[int]], cores: int
) -> None:
    files = stream(counts)
    total = sum(file.raw_bytes for file in files)
    size = partition_bytes(files, 0, files[-1].end, Request(cores=cores))
    assert LEAST_BYTES <= size <= MOST_BYTES
    assert total // size >= min(cores, total // LEAST_BYTES)


def test_the_cores_are_those_of_this_process_unless_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    large = data_file(0, [20_000] * 128)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(32)), raising=False)
    assert partition_bytes([large], 0, large.end, Request()) == 32 * MIB
    assert partition_bytes([large], 0, large.end, Request(cores=16)) == 64 * MIB
    monkeypatch.delattr("os.sched_getaffinity")
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    assert partition_bytes([large], 0, large.end, Request()) == 16 * MIB
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert partition_bytes([large], 0, large.end, Request()) == 128 * MIB


def test_a_partition_is_an_eighth_of_what_is_read_between_a_least_and_a_most() -> None:
    file = data_file(0, [1000] * 64)
    two = Request(cores=2)
    assert partition_bytes([], 0, 0, two) == LEAST_BYTES
    assert partition_bytes([file], 0, 10, two) == LEAST_BYTES
    assert partition_bytes([file], 0, 10_000, two) == 40 * MIB
    assert partition_bytes([file], 0, file.end, two) == FEWER_BYTES
    assert partition_bytes([file] * 2, 0, file.end, two) == 128 * MIB
    assert partition_bytes([file] * 2, 16_000, 10**9, two) == 96 * MIB
    assert partition_bytes([file] * 3, 0, file.end, two) == MOST_BYTES


def test_the_size_that_is_asked_for_is_the_size() -> None:
    file = data_file(0, [1000] * 64)
    assert partition_bytes([file], 0, file.end, Request(partition_bytes=MIB, cores=2)) == MIB
    assert partition_bytes([file], 0, file.end, Request(partition_bytes=10**12, cores=64)) == 10**12


def test_a_file_of_more_than_one_part_is_cut_in_equal_ones() -> None:
    file = data_file(0, [10] * 13)
    halves = list(splits([file], 0, 130, 64 * MIB))
    assert [len(held(file, half)) for half in halves] in ([6, 7], [7, 6])


def test_small_files_share_a_partition_and_count_for_being_opened() -> None:
    files = [data_file(index * 10, [10], stored=100, raw=1000) for index in range(1000)]
    partitions = pack(splits(files, 0, 10_000, 64 * MIB), 64 * MIB)
    assert max(len(partition) for partition in partitions) <= 64 * MIB // FILE_COST
    assert len(partitions) < 30
    assert sum(len(partition) for partition in partitions) == 1000


def test_nothing_selected_gives_no_partition() -> None:
    assert pack(splits([data_file(0, [5])], 5, 5)) == []
    assert pack([]) == []


def test_a_run_holds_nothing_of_the_members_table() -> None:
    large = data_file(0, [10] * 1000)
    piece: Split = next(splits([large], 0, large.end, 16 * MIB))
    assert len(held(large, piece)) == 2
    assert piece.messages == 20
    every = next(splits([large], 0, large.end, 10**6 * MIB))
    assert every.messages == 10_000
    assert len(msgspec.msgpack.encode(every)) < 300

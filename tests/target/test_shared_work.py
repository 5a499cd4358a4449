"""The thread that hands compressing over and helps with it: when it does, in what order, and what fails then."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from threading import get_ident

import pytest

from target_singerlake.files.growing import Compressor, GrowingFile
from tests.target.test_parts import growing

MEMORY = 8 << 20
PIECE = 600 << 10


@contextmanager
def held_up(compressor: Compressor) -> Iterator[threading.Event]:
    """The compressor's threads wait until the event is set, at the latest at the end of the block."""
    go_on = threading.Event()
    for _ in range(3):
        compressor.share(1, go_on.wait, bool)
    try:
        yield go_on
    finally:
        go_on.set()
        compressor.close()


def share(compressor: Compressor, names: list[str], done: list[tuple[str, int]], size: int = PIECE) -> None:
    for name in names:
        compressor.share(size, get_ident, lambda thread, name=name: done.append((name, thread)))  # type: ignore[misc]


def test_the_caller_works_while_the_others_are_behind() -> None:
    compressor, done = Compressor(2, MEMORY), list[tuple[str, int]]()
    with held_up(compressor) as go_on:
        # The first two are not more than a fourth of what may be under way.
        share(compressor, ["a", "b", "c", "d"], done)
        assert done == []
        go_on.set()
        compressor.wait(0)
        share(compressor, ["e"], done)
        compressor.wait(0)
    names, threads = zip(*done, strict=True)
    assert names == ("a", "b", "c", "d", "e")
    assert [thread == get_ident() for thread in threads] == [False, False, True, True, False]


def test_one_thread_works_alone() -> None:
    compressor, done = Compressor(1, MEMORY), list[tuple[str, int]]()
    with held_up(compressor) as go_on:
        share(compressor, ["a", "b", "c", "d"], done)
        go_on.set()
        compressor.wait(0)
    assert [name for name, _ in done] == ["a", "b", "c", "d"]
    assert get_ident() not in {thread for _, thread in done}


def test_it_waits_where_too_much_is_under_way_before_it_helps() -> None:
    compressor, done = Compressor(2, MEMORY), list[tuple[str, int]]()
    with held_up(compressor) as go_on:
        share(compressor, list("abcdef"), done)
        assert compressor.in_flight + PIECE > compressor.limit
        more = threading.Thread(target=share, args=(compressor, ["g"], done))
        more.start()
        more.join(0.2)
        assert more.is_alive()
        go_on.set()
        more.join()
        compressor.wait(0)
    assert [name for name, _ in done] == list("abcdefg")


def test_what_fails_on_the_calling_thread_is_raised_there_and_nothing_later_passes() -> None:
    compressor, done = Compressor(2, MEMORY), list[tuple[str, int]]()

    def fail() -> int:
        raise MemoryError("no more")

    with held_up(compressor) as go_on:
        share(compressor, ["a", "b", "c"], done)
        with pytest.raises(MemoryError):
            compressor.share(PIECE, fail, lambda _: done.append(("d", 0)))
        with pytest.raises(MemoryError):
            share(compressor, ["e"], done)
        with pytest.raises(MemoryError):
            compressor.submit(1, lambda: done.append(("f", 0)))
        go_on.set()
    assert done == []


def test_what_fails_after_the_caller_helped_ends_the_run_too() -> None:
    compressor, done = Compressor(2, MEMORY), list[tuple[str, int]]()

    def fail(_: int) -> None:
        raise OSError("full")

    with held_up(compressor) as go_on:
        share(compressor, ["a", "b"], done)
        helped = compressor.share(PIECE, get_ident, fail)
        go_on.set()
        assert isinstance(helped.exception(), OSError)
        with pytest.raises(OSError, match="full"):
            share(compressor, ["c"], done)
    assert [name for name, _ in done] == ["a", "b"]


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_members_are_in_their_file_in_order_whoever_compressed_them(tmp_path: Path, threads: int) -> None:
    compressor = Compressor(threads, 1 << 20)
    files = [growing(tmp_path, name) for name in ("f", "g", "h")]
    sent: dict[str, list[bytes]] = {file.header.id: [] for file in files}
    for number in range(600):
        file = files[number % len(files)]
        line = (b"%d " % number).ljust(5_000 + number * 37 % 60_000, b"x") + b"\n"
        sent[file.header.id].append(line)
        before, parts = file.ready, [line]
        if number % 7:
            file.ready = compressor.share(
                len(line), partial(file.compressed, parts, 1, 1), partial(file.add_member, before=before)
            )
        else:
            file.ready = compressor.submit(len(line), partial(whole_member, file, parts, before))
        assert compressor.in_flight <= compressor.limit
    for file in files:
        file.finish()
        assert gzip.decompress(file.path.read_bytes()).partition(b"\n")[2] == b"".join(sent[file.header.id])
        assert file.spool is not None
        assert (file.spool.messages, file.spool.records) == (200, 200)
    compressor.close()


def whole_member(file: GrowingFile, parts: list[bytes], before: Future[None]) -> None:
    file.add_member(file.compressed(parts, 1, 1), before)

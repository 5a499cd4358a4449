"""The thread that hands compressing over and helps with it: when it does, in what order, and what fails then."""

from __future__ import annotations

import gzip
import io
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, redirect_stdout, suppress
from functools import partial
from pathlib import Path
from threading import get_ident

import pytest

from target_singerlake.files import growing as growing_module
from target_singerlake.files.growing import Compressor
from target_singerlake.target import TargetSingerlake
from tests.target.support import config, kept_ids, record, schema, state, text
from tests.target.test_parts import growing

MEMORY = 8 << 20
PIECE = 600 << 10


@contextmanager
def held_up(compressor: Compressor) -> Iterator[threading.Event]:
    """The compressor's threads wait until the event is set, at the latest at the end of the block."""
    go_on = threading.Event()
    for _ in range(3):
        compressor.share(1, go_on.wait)
    try:
        yield go_on
    finally:
        go_on.set()
        compressor.close()


def share(compressor: Compressor, names: list[str], done: list[tuple[str, int]]) -> list[Future[None]]:
    """Pieces of work that note in ``done`` which thread did them."""

    def noting(name: str) -> Callable[[int], None]:
        return lambda thread: done.append((name, thread))

    return [compressor.share(PIECE, get_ident, noting(name)) for name in names]


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


def test_the_caller_does_nothing_while_one_of_the_others_is_idle() -> None:
    compressor, threads, go_on = Compressor(4, MEMORY), set[int](), threading.Event()

    def work() -> None:
        threads.add(get_ident())
        go_on.wait()

    for _ in range(3):
        # Two of them are more than a fourth of what may be under way.
        compressor.share(1 << 20, work)
    assert compressor.in_flight == 3 << 20
    go_on.set()
    compressor.wait(0)
    compressor.close()
    assert len(threads) == 3
    assert get_ident() not in threads


def test_no_more_pieces_than_threads_are_compressed_at_once() -> None:
    compressor, at_once, most, counting = Compressor(2, 64 << 20), [0], [0], threading.Lock()

    def work() -> None:
        with counting:
            at_once[0] += 1
            most[0] = max(most[0], at_once[0])
        time.sleep(0.005)
        with counting:
            at_once[0] -= 1

    for _ in range(30):
        compressor.submit(1 << 20, work)
        compressor.share(1 << 20, work)
    compressor.wait(0)
    compressor.close()
    assert most == [2]


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
        *_, helped = share(compressor, ["a", "b", "c"], done)
        with pytest.raises(MemoryError):
            compressor.share(PIECE, fail, lambda _: done.append(("d", 0)))
        with pytest.raises(MemoryError):
            share(compressor, ["e"], done)
        with pytest.raises(MemoryError):
            compressor.submit(1, lambda: done.append(("f", 0)))
        go_on.set()
        assert isinstance(helped.exception(), MemoryError)
    assert done == []


def test_what_fails_after_the_caller_helped_ends_the_run_too() -> None:
    compressor, done, helpers = Compressor(2, MEMORY), list[tuple[str, int]](), list[int]()

    def fail(thread: int) -> None:
        helpers.append(thread)
        raise OSError("full")

    with held_up(compressor) as go_on:
        share(compressor, ["a", "b"], done)
        helped = compressor.share(PIECE, get_ident, fail)
        go_on.set()
        assert isinstance(helped.exception(), OSError)
        with pytest.raises(OSError, match="full"):
            share(compressor, ["c"], done)
    assert helpers == [get_ident()]
    assert [name for name, _ in done] == ["a", "b"]


def test_a_run_whose_reading_thread_cannot_compress_fails_and_its_state_tells_no_more_than_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compress, main, output = growing_module.compress_member, get_ident(), io.BytesIO()

    def failing(raw: bytes, level: int) -> bytes:
        if get_ident() != main:
            time.sleep(0.01)
        elif output.getvalue():
            raise MemoryError
        return compress(raw, level)

    monkeypatch.setattr(growing_module, "compress_member", failing)
    names = [f"s{number}" for number in range(60)]
    lines = [schema(name) for name in names]
    for id in range(60 * 600):
        lines.append(record(id, names[id % 60], filler="x" * 2000))
        if id % 1000 == 999:
            lines.append(state({"at": id}))
    settings = config(tmp_path, max_memory_bytes=16 << 20, compress_threads=2, max_file_records=250)
    read, write = os.pipe()

    def feed() -> None:
        """The rest of the input comes once a STATE is out."""
        half = len(lines) // 2
        with suppress(BrokenPipeError), open(write, "wb") as tap:
            tap.write(text(lines[:half]))
            tap.flush()
            while not output.getvalue():
                time.sleep(0.01)
            tap.write(text(lines[half:]))

    tap = threading.Thread(target=feed)
    tap.start()
    out = io.TextIOWrapper(output, encoding="utf-8")
    with open(read, "rb") as source, redirect_stdout(out), pytest.raises(MemoryError):
        TargetSingerlake(config=settings).listen(source)
    tap.join()
    kept = {id for name in names for id in kept_ids(tmp_path, name)}
    told = [json.loads(line)["at"] for line in output.getvalue().splitlines()]
    assert set(range(max(told) + 1)) <= kept
    assert len(kept) < len(lines)


@pytest.mark.parametrize("threads", [1, 2, 3, 4])
def test_members_are_in_their_file_in_order_whoever_compressed_them(tmp_path: Path, threads: int) -> None:
    compressor = Compressor(threads, 1 << 20)
    files = [growing(tmp_path, name) for name in ("f", "g", "h")]
    sent: dict[str, list[bytes]] = {file.header.id: [] for file in files}
    for number in range(600):
        file = files[number % len(files)]
        line = (b"%d " % number).ljust(5_000 + number * 37 % 60_000, b"x") + b"\n"
        sent[file.header.id].append(line)
        hand_over = compressor.share if number % 7 else compressor.submit
        file.ready = hand_over(
            len(line), partial(file.compressed, [line], 1, 1), partial(file.add_member, before=file.ready)
        )
        assert compressor.in_flight <= compressor.limit
    for file in files:
        file.finish()
        assert gzip.decompress(file.path.read_bytes()).partition(b"\n")[2] == b"".join(sent[file.header.id])
        assert file.spool is not None
        assert (file.spool.messages, file.spool.records) == (200, 200)
    compressor.close()

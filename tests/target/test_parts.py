"""The parts that a run is put together from, where a whole run cannot show their rules one by one."""

from __future__ import annotations

import io
import logging
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from singerlake.singer_file import FileHeader
from target_singerlake.files.growing import Compressor, GrowingFile
from target_singerlake.files.progress import EVERY_SECONDS, Progress
from target_singerlake.input.reader import READ_BYTES, Input, Waker
from target_singerlake.settings import PROPERTIES, settings_of
from tests.fakes import START


def test_after_an_error_nothing_passes_for_compressed() -> None:
    compressor = Compressor()
    done: list[str] = []

    def fail() -> None:
        raise OSError("no more")

    first = compressor.submit(1, lambda: done.append("first"))
    bad = compressor.submit(1, fail)
    with pytest.raises(OSError, match="no more"):
        bad.result()
    assert first.exception() is None
    with pytest.raises(OSError, match="no more"):
        compressor.submit(1, lambda: done.append("later"))
    with pytest.raises(OSError, match="no more"):
        compressor.check()
    compressor.close()
    assert done == ["first"]


@pytest.mark.parametrize("seconds", [-60, 0, 60])
def test_a_clock_that_is_set_back_gives_no_file_that_ends_before_it_begins(seconds: int) -> None:
    received = START, START + timedelta(seconds=seconds)
    file = GrowingFile(
        schema=None,  # type: ignore[arg-type]
        header=FileHeader(id="f", created="", run="r", seq=0),
        path=Path("f"),
        epochs=[0],
        opened=0.0,
        first_received=received[0],
        last_received=received[1],
        level=1,
    )
    assert [file.first, file.last] == sorted(received)


def test_work_that_was_queued_behind_an_error_fails_too() -> None:
    compressor = Compressor()
    read, write = os.pipe()

    def fail() -> None:
        os.read(read, 1)
        raise OSError("no more")

    compressor.submit(1, fail)
    queued = compressor.submit(1, lambda: None)
    os.write(write, b"x")
    assert isinstance(queued.exception(), OSError)
    compressor.close()
    os.close(read)
    os.close(write)


def blocks(source: Any) -> tuple[list[bytes], bytes]:
    with Waker() as waker:
        incoming = Input(source, waker)
        return [block for block in incoming.blocks(lambda: 60.0) if block], incoming.rest


@pytest.mark.parametrize("size", [1, 7, READ_BYTES - 1, READ_BYTES, 3 * READ_BYTES + 5])
def test_blocks_are_whole_lines_and_nothing_is_lost(tmp_path: Path, size: int) -> None:
    data = b"".join(b"%d%s\n" % (number, b"x" * (number % 50)) for number in range(size // 20 + 2)) * 2
    long = b"y" * (2 * READ_BYTES) + b"\n"
    whole = data + long + data
    path = tmp_path / "input"
    path.write_bytes(whole + b"rest")
    with path.open("rb") as binary, path.open("r") as text:
        for source in (binary, text, io.BytesIO(whole + b"rest"), io.StringIO((whole + b"rest").decode())):
            found, rest = blocks(source)
            assert b"".join(found) == whole
            assert rest == b"rest"
            assert all(block.endswith(b"\n") for block in found)


def test_a_call_from_elsewhere_ends_the_wait_for_input() -> None:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as source, os.fdopen(write, "wb", buffering=0) as sink, Waker() as waker:
        incoming = Input(source, waker).blocks(lambda: 600.0)
        waker.wake()
        assert next(incoming) == b""
        sink.write(b"half")
        waker.wake()
        assert next(incoming) == b""
        sink.write(b" and half\n")
        assert next(incoming) == b"half and half\n"
    waker.wake()


def test_progress_is_told_at_least_every_half_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    progress = Progress(logging.getLogger("target-singerlake"), 0.0)
    progress.seen("users")
    for second in range(300):
        progress.records("users", 10)
        progress.read(1000)
        progress.tick(float(second))
    said = [entry.getMessage() for entry in caplog.records if "records read" in entry.getMessage()]
    assert len(said) == 299 // int(EVERY_SECONDS)
    assert EVERY_SECONDS <= 30
    assert said[0] == "260 records read (0.0 MB, 25 s), 0 files committed"


def test_null_and_missing_settings_mean_the_default() -> None:
    wanted = {"lake_root": "x", "tap_id": "t"}
    nulls = {name: None for name in PROPERTIES if name not in wanted}
    assert settings_of({**nulls, **wanted}, {}) == settings_of(wanted, {})
    zero = settings_of({**wanted, "max_file_bytes": 0, "max_file_age_seconds": 0}, {})
    assert (zero.max_file_bytes, zero.max_file_age_seconds) == (0, 0)

"""How much is written at once to what standard output may be, and what a signal between two writes does."""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
import threading
from pathlib import Path

import pytest

from tap_singerlake import output
from tap_singerlake.output import LineWriter, piece_for


def test_a_file_takes_a_block_whole(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb", buffering=0) as file, open(os.devnull, "wb", buffering=0) as nothing:
        assert piece_for(file) == piece_for(nothing) == sys.maxsize


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a pipe is as large as it is")
@pytest.mark.parametrize(("before", "after"), [(1 << 16, 1 << 17), (1 << 18, 1 << 18), (4096, 1 << 17)])
def test_a_pipe_gets_what_it_holds_and_is_never_made_smaller(before: int, after: int) -> None:
    import fcntl

    reading, writing = os.pipe()
    with open(reading, "rb"), open(writing, "wb", buffering=0) as pipe:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, before)
        assert piece_for(pipe) == after == fcntl.fcntl(pipe, fcntl.F_GETPIPE_SZ)


def test_a_pipe_whose_size_cannot_be_changed_gets_as_much_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "fcntl", None)
    reading, writing = os.pipe()
    with open(reading, "rb"), open(writing, "wb", buffering=0) as pipe:
        assert piece_for(pipe) == 1 << 16


def test_what_is_neither_gets_small_pieces() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert piece_for(one) == 1 << 16
    assert piece_for(io.BytesIO()) == 1 << 16


def test_a_signal_between_two_writes_ends_the_process_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(threading.Timer, "start", lambda _: None)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out := io.BytesIO()))
    writer = LineWriter()
    writer.write(b"{}\n")
    with pytest.raises(SystemExit) as left:
        writer.stop(signal.SIGTERM)
    assert (left.value.code, out.getvalue()) == (128 + signal.SIGTERM, b"{}\n")

"""The plugins and the command as processes that begin at once: forked from one that has imported them, since starting
Python and importing singer-sdk takes longer than most of these runs. Command line, environment, standard streams,
signals and the end of the process are those of a process of its own; what is imported when is for tests that start
one."""

from __future__ import annotations

import array
import functools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import IO

PIPE = subprocess.PIPE


class Plugin:
    """A run of a program of ``tests.processes.template``, used as ``subprocess.Popen`` is. ``stderr`` may be a file."""

    def __init__(
        self, name: str, arguments: Sequence[str], *, env: Mapping[str, str], stderr: IO[bytes] | int = PIPE
    ) -> None:
        theirs_in, mine_in = os.pipe()
        mine_out, theirs_out = os.pipe()
        mine_status, theirs_status = os.pipe()
        self.stdin: IO[bytes] | None = os.fdopen(mine_in, "wb")
        self.stdout: IO[bytes] | None = os.fdopen(mine_out, "rb")
        self.stderr: IO[bytes] | None = None
        handed = [theirs_in, theirs_out, theirs_status]
        if isinstance(stderr, int):
            mine_error, theirs_error = os.pipe()
            self.stderr = os.fdopen(mine_error, "rb")
            handed.append(theirs_error)
        else:
            theirs_error = stderr.fileno()
        self._status = os.fdopen(mine_status, "rb")
        self._ended = threading.Event()
        self._code = 0
        files = (theirs_in, theirs_out, theirs_error, theirs_status)
        self.pid = fork_from_template(name, arguments, env, files, cwd=os.getcwd())
        for each in handed:
            os.close(each)
        threading.Thread(target=self._wait_for_status, daemon=True).start()

    @property
    def returncode(self) -> int | None:
        """As ``subprocess`` has it: below 0 where a signal ended the process, None while it runs."""
        return self._code if self._ended.is_set() else None

    def poll(self) -> int | None:
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return self._code

    def communicate(self, given: bytes = b"", *, timeout: float | None = None) -> tuple[bytes, bytes]:
        """Write what is given, close standard input, read both outputs to their end, and wait."""
        readers = [stream for stream in (self.stdout, self.stderr) if stream]
        with ThreadPoolExecutor(len(readers) + 1) as pool:
            read = [pool.submit(stream.read) for stream in readers]
            pool.submit(self._write, given)
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            texts = [each.result() for each in read]
        return (texts[0], texts[1] if self.stderr else b"")

    def send_signal(self, number: int) -> None:
        if not self._ended.is_set():
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _write(self, given: bytes) -> None:
        try:
            if self.stdin and not self.stdin.closed:
                self.stdin.write(given)
                self.stdin.close()
        except BrokenPipeError:
            self.stdin = None

    def _wait_for_status(self) -> None:
        with self._status:
            self._code = json.loads(self._status.read())
        self._ended.set()


def run(
    name: str, arguments: Sequence[str], given: bytes = b"", *, env: Mapping[str, str], timeout: float = 120
) -> subprocess.CompletedProcess[bytes]:
    """Run a plugin to its end."""
    process = Plugin(name, arguments, env=env)
    out, error = process.communicate(given, timeout=timeout)
    return subprocess.CompletedProcess([name, *arguments], process.wait(), out, error)


class _Template:
    """The process that others are forked from; it ends when this one does."""

    def __init__(self) -> None:
        mine, theirs = socket.socketpair()
        root = Path(__file__).parents[2]
        subprocess.Popen(
            [sys.executable, "-m", "tests.processes.template", str(theirs.fileno())],
            cwd=root,
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
        )
        theirs.close()
        self._socket = mine
        self._lock = threading.Lock()

    def fork(self, name: str, arguments: Sequence[str], env: Mapping[str, str], files: Sequence[int], cwd: str) -> int:
        asked = json.dumps({"name": name, "arguments": list(arguments), "env": dict(env), "cwd": cwd}).encode()
        with self._lock:
            passed = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))]
            self._socket.sendmsg([len(asked).to_bytes(4)], passed)
            self._socket.sendall(asked)
            return int.from_bytes(self._socket.recv(4, socket.MSG_WAITALL))


@functools.cache
def _template() -> _Template:
    return _Template()


def fork_from_template(
    name: str, arguments: Sequence[str], env: Mapping[str, str], files: Sequence[int], *, cwd: str
) -> int:
    """The id of a process that runs this program. ``files`` become standard input, output and error, and what its
    status is written to."""
    return _template().fork(name, arguments, env, files, cwd)

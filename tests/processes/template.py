"""What ``tests.processes.plugins`` forks from: it has the programs imported, and the clouds' libraries, and does
nothing with them itself."""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import socket
import sys

import azure.storage.blob
import google.cloud.storage

import singerlake.cli.main
import tap_singerlake.tap
import target_singerlake.target
from tests.processes import killed

LIBRARIES = (azure.storage.blob, google.cloud.storage)
MAIN = {
    "tap": tap_singerlake.tap.main,
    "target": target_singerlake.target.main,
    "singerlake": singerlake.cli.main.main,
    killed.NAME: killed.main,
}


def serve(asking: socket.socket) -> str:
    """Fork for whoever asks until nobody does any more. In the process that is forked, return which plugin it is."""
    woken, wakes = os.pipe()
    for end in (woken, wakes):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wakes)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    statuses: dict[int, int] = {}
    selector = selectors.DefaultSelector()
    for each in (asking, woken):
        selector.register(each, selectors.EVENT_READ)
    while True:
        ready = {key.fileobj for key, _ in selector.select()}
        if woken in ready:
            os.read(woken, 4096)
            _tell(statuses)
        if asking not in ready:
            continue
        head, files, _, _ = socket.recv_fds(asking, 4, 4)
        if not head:
            sys.exit()
        asked = json.loads(asking.recv(int.from_bytes(head), socket.MSG_WAITALL))
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            selector.close()
            for each in (woken, wakes, asking.detach(), *statuses.values()):
                os.close(each)
            return _become(asked, files)
        statuses[pid] = files[3]
        for each in files[:3]:
            os.close(each)
        asking.sendall(pid.to_bytes(4))


def _tell(statuses: dict[int, int]) -> None:
    """Write how processes have ended."""
    while statuses:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with os.fdopen(statuses.pop(pid), "w") as file:
            file.write(str(os.waitstatus_to_exitcode(status)))


def _become(asked: dict, files: list[int]) -> str:
    for number, file in enumerate(files[:3]):
        os.dup2(file, number)
    for file in files:
        os.close(file)
    # Those of the template know whether its own files can be sought in.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    sys.argv = [asked["name"], *asked["arguments"]]
    return asked["name"]


if __name__ == "__main__":
    # What is there already is no garbage: looking for some in it would copy its pages in each process.
    gc.collect()
    gc.freeze()
    MAIN[serve(socket.socket(fileno=int(sys.argv[1])))]()

"""The programs of the lake in the PATH of a shell, each begun at once: a small program there hands its arguments,
environment, folder and standard streams over, and ``tests.processes.template`` forks what runs with them."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from pathlib import Path

from tests.processes.plugins import fork_from_template

PROGRAMS = {"singerlake": "singerlake", "target-singerlake": "target", "tap-singerlake": "tap"}
"""The names of programs, and what the template calls them."""

_SHIM = """#!{python} -IS
import json, os, socket, sys
asking = socket.socket(socket.AF_UNIX)
asking.connect({path!r})
asked = json.dumps([{name!r}, sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
socket.send_fds(asking, [len(asked).to_bytes(4)], [0, 1, 2])
asking.sendall(asked)
code = json.loads(asking.recv(64))
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""


def shims(folder: Path) -> Path:
    """The folder to put in front of PATH, made below ``folder``. What serves it ends with this process."""
    serving = socket.socket(socket.AF_UNIX)
    path = str(folder / "asked")
    serving.bind(path)
    serving.listen()
    programs = folder / "bin"
    programs.mkdir()
    for program, name in PROGRAMS.items():
        (programs / program).write_text(_SHIM.format(python=sys.executable, path=path, name=name))
        (programs / program).chmod(0o755)
    threading.Thread(target=_serve, args=(serving,), daemon=True).start()
    return programs


def _serve(serving: socket.socket) -> None:
    while True:
        asking, _ = serving.accept()
        threading.Thread(target=_run, args=(asking,), daemon=True).start()


def _run(asking: socket.socket) -> None:
    with asking:
        head, files, _, _ = socket.recv_fds(asking, 4, 3)
        name, arguments, env, cwd = json.loads(asking.recv(int.from_bytes(head), socket.MSG_WAITALL))
        mine, theirs = os.pipe()
        fork_from_template(name, arguments, env, (*files, theirs), cwd=cwd)
        for each in (*files, theirs):
            os.close(each)
        with os.fdopen(mine, "rb") as status:
            asking.sendall(status.read())

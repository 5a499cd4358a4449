"""A system without POSIX locks and polls, as Windows is: everything is imported, and what needs them says so."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

from singerlake import open_file_lock

_HIDE = """
    import importlib, os, pkgutil, select, sys
    # Libraries look for these themselves; what is hidden is hidden from this project.
    import boto3, click, psycopg, pyarrow, pyspark.sql, singer_sdk
    sys.modules["fcntl"] = None
    for module, names in {os: ("register_at_fork", "geteuid", "set_blocking", "O_NOFOLLOW", "O_DIRECTORY"),
                          select: ("poll",)}.items():
        for name in names:
            delattr(module, name)
"""


def run(program: str, *arguments: object) -> str:
    """What a program prints in a process that has none of them."""
    source = textwrap.dedent(_HIDE) + textwrap.dedent(program)
    done = subprocess.run(
        [sys.executable, "-c", source, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_module_is_imported() -> None:
    told = run("""
        import singerlake, tap_singerlake, target_singerlake
        count = 0
        for package in (singerlake, tap_singerlake, target_singerlake):
            for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
                importlib.import_module(module.name)
                count += 1
        print(count)
    """)
    assert int(told) > 200


def test_a_lake_on_a_local_disk_and_a_journal_are_refused_and_a_lake_on_s3_is_not(tmp_path: Path) -> None:
    told = run(
        """
        import pathlib
        from singerlake.adapters import open_storage
        from singerlake.errors import SettingError
        from singerlake.work.journal_file import open_file
        folder = sys.argv[1]
        for ask in (
            lambda: open_storage(folder),
            lambda: open_file(pathlib.Path(folder, "journal"), "verify", folder, print).__enter__(),
        ):
            try:
                ask()
            except SettingError as error:
                print(error.message)
        print(open_storage("s3://bucket/lake").url)
        """,
        tmp_path,
    )
    assert told.splitlines() == [
        "a lake on a local disk needs file locks (flock), which this system does not have",
        "a journal needs file locks (flock), which this system does not have",
        "s3://bucket/lake",
    ]
    assert list(tmp_path.iterdir()) == []


def test_input_is_read_from_a_pipe_and_spooled(tmp_path: Path) -> None:
    told = run(
        """
        from singerlake.spools import Spools
        from target_singerlake.input.reader import Input, Waker
        read, write = os.pipe()
        os.write(write, b"one\\ntwo\\n")
        os.close(write)
        with Waker() as waker:
            print(b"".join(Input(os.fdopen(read, "rb"), waker).blocks(lambda: 0.0)))
        folder = Spools(sys.argv[1]).make()
        print(list(folder.path.iterdir()))
        folder.remove()
        """,
        tmp_path,
    )
    assert told.splitlines() == ["b'one\\ntwo\\n'", "[]"]
    assert list(tmp_path.iterdir()) == []


def test_here_the_locks_are_there() -> None:
    assert open_file_lock.AVAILABLE

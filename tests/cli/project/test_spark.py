"""Tables made by Spark from the command line, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from singerlake.lake import Lake
from singerlake.spark.java import Java
from tests.lakes import build_stream
from tests.upkeep.shelf import SCHEMA


@pytest.mark.thorough
def test_one_session_makes_all_tables(tmp_path: Path, java: Java) -> None:
    lake = Lake.open(str(tmp_path / "lake"))
    for stream in ("a", "b"):
        build_stream(lake, "t", stream, SCHEMA, [{"n": n % 7} for n in range(50)], key_properties=("n",), file_size=10)
    code = "from singerlake.cli.main import main; main(prog_name='singerlake')"
    command = [sys.executable, "-c", code, "project", "run", str(tmp_path / "lake"), "--all", "--master", "local[2]"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert done.returncode == 0, done.stderr
    assert [line.partition(";")[0] for line in done.stdout.splitlines()] == [
        "a: 50 records read: 7 new",
        "b: 50 records read: 7 new",
    ]
    assert sorted(lake.table("b").to_arrow(columns=["n"]).read_all().column("n").to_pylist()) == list(range(7))

"""The wheel in an environment of its own, without a compiler: the commands run, and so do the compiled parts."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tools.compile_hook import REQUIRED

ROOT = Path(__file__).parents[2]
MESSAGES = [
    {"type": "SCHEMA", "stream": "s", "schema": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    *({"type": "RECORD", "stream": "s", "record": {"n": n}} for n in range(1000)),
    {"type": "STATE", "value": {"n": 999}},
]
LOOK = """
import sys
from pathlib import Path
from singerlake.arrow.decode import _plain
from singerlake.format import _newlines
from singerlake.format.lines import _lines, _records, _scanner
from singerlake.lake import Lake
from singerlake.tables.formats.encode import _rows
for module in (_plain, _newlines, _lines, _records, _scanner, _rows):
    assert Path(module.__file__).is_relative_to(sys.prefix), module
assert _newlines.look(b"a\\n") == (1, False)
assert _lines.count(b'{"type":"RECORD","stream":"s","record":{}}\\n', b"s", False) is not None
assert _scanner.Scanner().scan(b"{}\\n", 0) == (0, 0, [])
print(Lake.open(sys.argv[1]).stream("tap", "s").to_arrow().read_all()["n"].to_pylist() == list(range(1000)))
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its folder of programs. What the package depends on comes from this environment, the package does not."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, env={**os.environ, REQUIRED: "1"}, check=True, capture_output=True)
    (made,) = folder.glob("*.whl")
    home = folder / "environment"
    venv.create(home, with_pip=False)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "depends.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = [sys.executable, "-m", "pip", "--python", str(home), "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--ignore-installed", str(made)], check=True)
    return home / "bin"


def run(environment: Path, *command: str, given: str = "", folder: Path) -> str:
    """What a program of the environment says, where nothing else is on the path."""
    ran = subprocess.run(
        [str(environment / command[0]), *command[1:]],
        input=given,
        cwd=folder,
        env={"PATH": str(environment), "HOME": str(folder)},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.thorough
def test_what_is_installed_captures_verifies_replays_and_reads_fast(environment: Path, tmp_path: Path) -> None:
    assert shutil.which("cc", path=str(environment)) is None
    (tmp_path / "config.json").write_text(json.dumps({"lake_root": str(tmp_path / "lake"), "tap_id": "tap"}))
    lines = "".join(json.dumps(message) + "\n" for message in MESSAGES)
    state = run(environment, "target-singerlake", "--config", "config.json", given=lines, folder=tmp_path)
    assert json.loads(state) == {"n": 999}
    report = run(environment, "singerlake", "verify", "lake", folder=tmp_path)
    assert report.startswith("sound: 1 stream, 1 file, 1,000 messages")
    replayed = run(environment, "tap-singerlake", "--config", "config.json", folder=tmp_path)
    assert [line for line in replayed.splitlines() if "RECORD" in line] == lines.splitlines()[1:-1]
    assert run(environment, "python", "-c", LOOK, "lake", folder=tmp_path) == "True\n"

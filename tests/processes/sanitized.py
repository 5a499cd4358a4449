"""Compiled modules under the compiler's watch: built with the address and undefined-behaviour sanitizers, and run by a
script in a process of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import singerlake

PACKAGE = Path(singerlake.__file__).parent

DAMAGED = r"""
def damaged(chance, line, pieces):
    data = bytearray(line * chance.randint(0, 3))
    for _ in range(chance.choice([0, 1, 1, 2, 5])):
        at = chance.randint(0, len(data))
        what = chance.random()
        if what < 0.4:
            data[at:at] = chance.choice(pieces)
        elif what < 0.6:
            data[at : at + chance.randint(1, 9)] = b""
        elif what < 0.8 and at < len(data):
            data[at] = chance.randrange(256)
        elif data:
            del data[at:]
            data += chance.choice([b"", b"\n", b"\n"])
    # A copy of its own size, so that a byte read behind it is seen.
    return bytes(data)
"""
"""What a script may call for some copies of a line with some bytes changed, put in and left out."""

linux = pytest.mark.skipif(sys.platform != "linux", reason="the sanitizers are loaded as on Linux")


def watched(folder: Path, source: str, script: str, *arguments: object) -> str:
    """What ``script`` prints, run with ``arguments`` and with the module of ``source``, a path below the package, which
    it may import by its bare name. Fails where the sanitizers see anything."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()
    assert shutil.which(compiler[0]), "a C compiler is needed to test the compiled modules"
    includes = [f"-I{sysconfig.get_path(kind)}" for kind in ("include", "platinclude")]
    flags = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer"]
    strict = ["-Wall", "-Wextra", "-Werror", "-DPy_LIMITED_API=0x030B0000"]
    library = folder / f"{Path(source).stem}.abi3.so"
    made = ["-O1", "-g", "-shared", "-fPIC", str(PACKAGE / source), "-o", str(library)]
    subprocess.run([*compiler, *flags, *strict, *includes, *made], check=True)
    asan = subprocess.run([*compiler, "-print-file-name=libasan.so"], check=True, capture_output=True, text=True)
    path = folder / "script.py"
    path.write_text(f"import sys; sys.path.insert(0, {str(folder)!r})\n{DAMAGED}\n{script}")
    watch = {
        "LD_PRELOAD": asan.stdout.strip(),
        # Every object of its own from malloc, for the sanitizer to know its end; the interpreter itself leaks.
        "PYTHONMALLOC": "malloc",
        "ASAN_OPTIONS": "detect_leaks=0",
    }
    ran = subprocess.run(
        [sys.executable, "-S", str(path), *map(str, arguments)],
        env={**os.environ, **watch},
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    return ran.stdout

"""The Azurite that tests of Azure talk to, Microsoft's own emulator: the machine's, or the npm registry's.

python -m tools.azurite    say where it is, and get it where there is none; exit 1 where that cannot be done
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

VARIABLE = "SINGERLAKE_AZURITE"
PROGRAM = "azurite-blob"
PACKAGE = "azurite@^3.35"
FOLDER = Path(sys.prefix) / "azurite"
"""Where npm puts it: it goes with the virtual environment."""
ADVICE = (
    "no Azurite: run 'python -m tools.azurite' where npm is installed, which gets it from the npm registry, install it "
    f"some other way, or set ${VARIABLE} to the program {PROGRAM}"
)


class NoAzuriteError(Exception):
    """There is none; the message says how to get it."""


def find() -> Path:
    """The program. Raises ``NoAzuriteError``."""
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_file():
            raise NoAzuriteError(f"${VARIABLE} is {named!r}, and there is no such program")
        return Path(named)
    own = FOLDER / "node_modules" / ".bin" / PROGRAM
    found = str(own) if own.is_file() else shutil.which(PROGRAM)
    if found is None:
        raise NoAzuriteError(ADVICE)
    return Path(found)


def get() -> Path:
    """The program, installed if need be. Raises ``NoAzuriteError``."""
    try:
        return find()
    except NoAzuriteError:
        npm = shutil.which("npm")
        if npm is None or os.environ.get(VARIABLE):
            raise
    command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(FOLDER), PACKAGE]
    print("+", " ".join(command), file=sys.stderr)
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return find()


def main() -> int:
    """Find it or get it; the exit code."""
    try:
        print(f"Azurite for the tests of Azure: {get()}")
    except NoAzuriteError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

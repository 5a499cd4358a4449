"""Makes an environment with pip, and shows how far it is: pip alone is silent for minutes, or prints hundreds of lines.

    python -m tools.install VENV ARGUMENT...        arguments of "pip install"

Needs nothing but Python: it runs before anything is installed.
"""

from __future__ import annotations

import subprocess
import sys
import time
import venv
from collections import deque
from pathlib import Path

LINES_ON_FAILURE = 15
SECONDS_BETWEEN_LINES = 10
"""Where the output is not a terminal: how often a line says that the install goes on."""


class Shown:
    """One line on a terminal that changes in place, and some lines elsewhere."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._begun = self._said = time.monotonic()
        self._terminal = sys.stdout.isatty()
        print(f"{title} ...", end="" if self._terminal else "\n", flush=True)

    def now(self, what: str) -> None:
        """What is done at this moment."""
        seconds = time.monotonic() - self._begun
        if self._terminal:
            print(f"\r\033[K{self._title}: {seconds:.0f} s, {what[:40]}", end="", flush=True)
        elif time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            print(f"    {seconds:.0f} s, {what}", flush=True)

    def end(self, what: str) -> None:
        """The whole."""
        start = "\r\033[K" if self._terminal else ""
        print(f"{start}{self._title}: {what} in {time.monotonic() - self._begun:.0f} s", flush=True)


def pip(python: Path, *arguments: str, title: str) -> int:
    """Run ``pip install`` of an environment and show it as ``title``; pip's exit code, with the end of what it said
    where that is not 0."""
    shown = Shown(title)
    command = [str(python), "-m", "pip", "install", "--progress-bar", "off", "--disable-pip-version-check", *arguments]
    last: deque[str] = deque(maxlen=LINES_ON_FAILURE)
    packages = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout is not None
        for line in running.stdout:
            last.append(line.rstrip())
            verb, _, rest = line.strip().partition(" ")
            if verb == "Collecting":
                packages += 1
                shown.now(f"{packages} packages found, {rest}")
            elif line.startswith("Installing collected packages"):
                shown.now(f"unpacking {packages} packages")
    shown.end("failed" if running.returncode else f"{packages} packages")
    if running.returncode:
        print("\n".join(last))
    return running.returncode


def main() -> int:
    """0, or pip's exit code."""
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    folder, wanted = Path(sys.argv[1]), sys.argv[2:]
    python = folder / "bin" / "python"
    if not python.exists():
        print(f"Making {folder}", flush=True)
        venv.create(folder, with_pip=True)
    # Groups of dependencies came with 25.1.
    failed = pip(python, "--upgrade", "pip>=25.1", title="Installing pip")
    return failed or pip(python, *wanted, title=f"Installing {' '.join(word for word in wanted if word[:1] != '-')}")


if __name__ == "__main__":
    sys.exit(main())

"""The Chromium that the tests of pages run in: Playwright's own, or the machine's.

python -m tools.chromium    say where it is, and get it where there is none; exit 1 where that cannot be done
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.debian import can_install, installing

VARIABLE = "SINGERLAKE_CHROMIUM"
NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGES = ("chromium-headless-shell", "chromium")
"""Debian's, the smallest first."""
ADVICE = (
    "no Chromium: run 'python -m tools.chromium', which gets it from Debian or Playwright, "
    f"or set ${VARIABLE} to the program"
)


class NoChromiumError(Exception):
    """There is none; the message says how to get it."""


def find() -> Path:
    """The program. Raises ``NoChromiumError``."""
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_file():
            raise NoChromiumError(f"${VARIABLE} is {named!r}, and there is no such program")
        return Path(named)
    for own in _of_playwright():
        return own
    for name in NAMES:
        found = shutil.which(name)
        if found:
            return Path(found)
    raise NoChromiumError(ADVICE)


def get() -> Path:
    """The program, installed if need be. Raises ``NoChromiumError``."""
    try:
        return find()
    except NoChromiumError:
        for command in _ways():
            print("+", " ".join(command), file=sys.stderr)
            if subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).returncode == 0:
                break
        return find()


def _of_playwright() -> list[Path]:
    """Those that Playwright has downloaded; it says only where the whole browser would be."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise NoChromiumError("the tests of pages need playwright; 'make install' brings it") from None

    with sync_playwright() as playwright:
        whole = Path(playwright.chromium.executable_path)
    shells = sorted(whole.parents[2].glob("chromium_headless_shell-*/*/*headless*shell"), reverse=True)
    return [each for each in (*shells, whole) if each.is_file()]


def _ways() -> list[list[str]]:
    """Commands of which the first to succeed is enough."""
    ways = [[sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"]]
    if can_install():
        # Distributions that have but a stand-in for it lack the first, and Playwright's own is better than the second.
        ways = [installing(PACKAGES[0]), *ways, installing(PACKAGES[1])]
    return ways


def main() -> int:
    """Find it or get it; the exit code."""
    try:
        print(f"Chromium for the tests of pages: {get()}")
    except NoChromiumError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Servers that tests run as programs: the machine's, or those of Debian and of distributions that have its tools."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where servers are, which is not always on the PATH."""
_INSTALL = (
    "apt-get -qq update; DEBIAN_FRONTEND=noninteractive "
    'apt-get -qq -y --no-install-recommends -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 install "$0"'
)


class NoProgramError(Exception):
    """There is none; the message says how to get it."""


@dataclass(frozen=True)
class Program:
    """A program and the package that has it. ``purpose`` is what needs it."""

    name: str
    package: str
    purpose: str

    @property
    def variable(self) -> str:
        """The environment variable that may name it."""
        return f"SINGERLAKE_{self.name.upper()}"

    def find(self) -> Path:
        """Where it is. Raises ``NoProgramError``."""
        named = os.environ.get(self.variable)
        if named:
            if not Path(named).is_file():
                raise NoProgramError(f"${self.variable} is {named!r}, and there is no such program")
            return Path(named)
        found = shutil.which(self.name, path=os.pathsep.join((os.environ.get("PATH", ""), *SYSTEM)))
        if found is None:
            raise NoProgramError(
                f"no {self.name}: run 'python -m tools.{self.name}' as root, which gets {self.package} from Debian, "
                f"install it some other way, or set ${self.variable} to the program"
            )
        return Path(found)

    def get(self) -> Path:
        """Where it is, installed if need be. Raises ``NoProgramError``."""
        try:
            return self.find()
        except NoProgramError:
            if not can_install():
                raise
        command = installing(self.package)
        print("+", " ".join(command), file=sys.stderr)
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        return self.find()

    def main(self) -> int:
        """Find it or get it; the exit code."""
        try:
            print(f"{self.name} for {self.purpose}: {self.get()}")
        except NoProgramError as error:
            print(error, file=sys.stderr)
            return 1
        return 0


def can_install() -> bool:
    """Whether this machine has such packages and lets this user install them."""
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def installing(package: str) -> list[str]:
    """The command that installs a package, with what it needs and nothing else."""
    return ["sh", "-c", _INSTALL, package]

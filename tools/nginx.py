"""The nginx that the tests put in front of storage: the machine's, or Debian's.

python -m tools.nginx    say where it is, and get it where there is none; exit 1 where that cannot be done
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tools.debian import can_install, installing

VARIABLE = "SINGERLAKE_NGINX"
PACKAGE = "nginx-light"
SYSTEM = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where servers are, which is not always on the PATH."""
ADVICE = (
    f"no nginx: run 'python -m tools.nginx' as root, which gets {PACKAGE} from Debian, install it some other way, "
    f"or set ${VARIABLE} to the program"
)


class NoNginxError(Exception):
    """There is none; the message says how to get it."""


def find() -> Path:
    """The program. Raises ``NoNginxError``."""
    named = os.environ.get(VARIABLE)
    if named:
        if not Path(named).is_file():
            raise NoNginxError(f"${VARIABLE} is {named!r}, and there is no such program")
        return Path(named)
    found = shutil.which("nginx", path=os.pathsep.join((os.environ.get("PATH", ""), *SYSTEM)))
    if found is None:
        raise NoNginxError(ADVICE)
    return Path(found)


def get() -> Path:
    """The program, installed if need be. Raises ``NoNginxError``."""
    try:
        return find()
    except NoNginxError:
        if not can_install():
            raise
    command = installing(PACKAGE)
    print("+", " ".join(command), file=sys.stderr)
    subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return find()


def main() -> int:
    """Find it or get it; the exit code."""
    try:
        print(f"nginx for the tests of storage behind a balancer: {get()}")
    except NoNginxError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

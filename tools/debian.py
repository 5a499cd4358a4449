"""Packages of Debian, and of distributions that have its tools."""

from __future__ import annotations

import os
import shutil

_INSTALL = (
    "apt-get -qq update; DEBIAN_FRONTEND=noninteractive "
    'apt-get -qq -y --no-install-recommends -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 install "$0"'
)


def can_install() -> bool:
    """Whether this machine has such packages and lets this user install them."""
    return shutil.which("apt-get") is not None and os.geteuid() == 0


def installing(package: str) -> list[str]:
    """The command that installs a package, with what it needs and nothing else."""
    return ["sh", "-c", _INSTALL, package]

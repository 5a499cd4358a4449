"""botocore's descriptions of services, parsed once in a process: each session parses them anew by itself, a tenth of
a second for one client, and its many small objects make each collection of garbage as long again."""

from __future__ import annotations

import functools

import botocore.session


def share() -> None:
    """Have all sessions that this process makes from now on load through one loader for each search path."""
    loader = botocore.session.create_loader
    if not hasattr(loader, "cache_info"):
        botocore.session.create_loader = functools.cache(loader)

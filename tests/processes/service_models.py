"""botocore's models of services, parsed once in a process: each session parses them anew by itself, a tenth of
a second for one client, and its many small objects make each collection of garbage as long again."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import botocore.session

from singerlake.aws import service_models


def share() -> None:
    """Have all sessions that this process makes from now on load through one loader for each search path."""
    loader = botocore.session.create_loader
    if not hasattr(loader, "cache_info"):
        botocore.session.create_loader = functools.cache(loader)
        once = functools.cache(service_models.loader)

        def ours(search_paths: Sequence[str]) -> Any:
            # Each session of boto3 adds its own folder to a list that all share.
            return once(tuple(dict.fromkeys(search_paths)))

        service_models.loader = ours

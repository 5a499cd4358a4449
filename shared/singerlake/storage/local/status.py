"""What the status of a file says of the object that it is."""

from __future__ import annotations

import os
from datetime import UTC, datetime

from singerlake.storage.port import Entry


def etag_of(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def modified_of(status: os.stat_result) -> datetime:
    return datetime.fromtimestamp(status.st_mtime, UTC)


def entry_of(key: str, status: os.stat_result) -> Entry:
    return Entry(key, status.st_size, modified_of(status), etag_of(status))


def refuses(present: os.stat_result | None, if_absent: bool, if_match: str | None) -> bool:
    """Whether what is there, None: nothing, keeps a conditional write from taking place."""
    if if_match is not None:
        return present is None or etag_of(present) != if_match
    return if_absent and present is not None

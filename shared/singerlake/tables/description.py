"""What engines are told of a table: where it is, and how far what describes it has come. Pure."""

from __future__ import annotations

import os
from dataclasses import dataclass

from singerlake.storage.port import Storage
from singerlake.tables.state.keys import table_prefix


@dataclass(frozen=True, slots=True)
class Description:
    """What one format has at ``url``, in its newest ``version``. ``is_current``: it shows the table as it is."""

    version: int
    url: str
    is_current: bool
    is_there: bool


def url_of(storage: Storage, table: str) -> str:
    """The URL of a table's folder, without a slash at its end; that of one on a disk begins with ``file://``."""
    # A folder may have several names, and metadata that one process wrote has to be that of all.
    root = storage.url if "://" in storage.url else f"file://{os.path.realpath(storage.url)}"
    return f"{root}/{table_prefix(table).rstrip('/')}"

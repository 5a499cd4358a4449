"""Names of the files that tap-singerlake writes for BATCH messages, and which of them can go.

A target reads them and leaves them where they are, and the tap cannot tell when one is loaded. So they stay until
somebody removes what is old enough: their names say that the tap wrote them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import NamedTuple

from singerlake.storage.port import Entry, Storage

_MARK = "singerlake-batch-"
_NAME = re.compile(rf"{_MARK}[0-9a-v]{{16}}-\d{{6,}}-[A-Za-z0-9_-]{{1,64}}\.(?:jsonl|jsonl\.gz|parquet)\Z")
_ODD = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST = 64


@dataclass
class BatchNames:
    """Keys of one run's files in ``storage``, each a new one, of what every storage, shell and URL takes as it is."""

    storage: Storage
    prefix: str
    run: str
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def next_key(self, stream: str, suffix: str) -> str:
        """The key of the next file of ``stream``; ``suffix`` is that of its format."""
        plain = _ODD.sub("_", stream)[:_LONGEST] or "_"
        return f"{self.prefix}{_MARK}{self.run}-{next(self._numbers):06d}-{plain}{suffix}"

    def url(self, key: str) -> str:
        """Where a target finds the file: ``s3://bucket/...``, or ``file://`` and the path as it stands. singer-sdk
        reads such a URL so, and would not find a file by one with percent escapes."""
        root = self.storage.url
        return f"{root}/{key}" if "://" in root else f"file://{Path(root) / key}"


class OldBatches(NamedTuple):
    """The batch files below a place: ``old`` can go, ``waiting`` are younger."""

    old: Sequence[Entry]
    waiting: Sequence[Entry]


def old_batches(storage: Storage, *, older_than: timedelta, now: datetime) -> OldBatches:
    """The batch files below a place that was a root of ``batch_config``, and of all that lies there nothing else.
    ``now`` is on the storage's clock. Raises what storage raises."""
    found = [entry for entry in storage.list("") if is_batch_file(entry.key)]
    newest = now - older_than
    return OldBatches(
        old=[entry for entry in found if entry.last_modified <= newest],
        waiting=[entry for entry in found if entry.last_modified > newest],
    )


def is_batch_file(key: str) -> bool:
    return bool(_NAME.search(key))

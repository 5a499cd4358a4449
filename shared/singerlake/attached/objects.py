"""The objects of attached files: written once under the checksum of their bytes, whichever records have them."""

from __future__ import annotations

import hashlib
from itertools import count
from pathlib import Path

from singerlake.errors import CorruptObjectError
from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.storage.conditional import put_on_condition
from singerlake.storage.port import Storage, Written


def free_copy(manifest: Manifest, sha256: str) -> int:
    """The copy under which a writer that knows the state ``manifest`` keeps the bytes with this checksum: the least one
    that is not being collected, so that no collector deletes what is in use again."""
    retired = manifest.retired_by_id
    return next(copy for copy in count(1) if layout.attached_name(sha256, copy) not in retired)


def put_attached(storage: Storage, key: str, body: bytes | Path, size: int) -> bool:
    """See to it that the object at ``key``, whose name is the checksum of ``body``, is there with its ``size`` bytes;
    whether it was written now. A file at a path may be taken away.

    Whoever else writes it at the same time writes the same bytes. Raises ``CorruptObjectError`` where an object of
    another size is there, and what storage raises.
    """
    new = True
    if isinstance(body, bytes):
        outcome = put_on_condition(storage, key, body, etag=None, just_read=True)
        if isinstance(outcome, Written) and outcome.etag == hashlib.md5(body, usedforsecurity=False).hexdigest():
            return True
        new = isinstance(outcome, Written)
    elif storage.head(key) is None:
        storage.upload(key, body)
        return True
    else:
        new = False
    there = storage.head(key)
    if there is None or there.size != size:
        raise CorruptObjectError(
            f"has {there.size if there else 'no'} bytes, the file with this name has {size}",
            hint="move it away, run again, then run 'singerlake verify'",
            key=key,
        )
    return new

"""Replacing an object on condition, on every storage: how the state of a stream and its locks are written."""

from __future__ import annotations

from singerlake.storage.port import Refused, Storage, Written


def put_on_condition(
    storage: Storage, key: str, body: bytes, *, etag: str | None, just_read: bool = False
) -> Written | Refused:
    """Put ``body`` where the object still has ``etag``, or where there is none (None). ``just_read``: the caller's last
    request was to read the object.

    The request carries its condition whatever the probe found: where it is honoured after all, nothing is lost. Where
    conditions were seen to be ignored, a look just before the write is all there is, and another writer may come
    between the two. A storage that answers 501 to conditions gets the request without. Raises what storage raises.
    """
    able = storage.capabilities()
    if not able.conditional_put and not just_read:
        there = storage.head(key)
        if (there.etag if there else None) != etag:
            return Refused()
    if not able.takes_conditions:
        return storage.put(key, body)
    return storage.put(key, body, if_absent=True) if etag is None else storage.put(key, body, if_match=etag)

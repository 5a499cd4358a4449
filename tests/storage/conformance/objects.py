"""Keys that are odd, and looking at objects."""

from __future__ import annotations

from singerlake.storage.port import Refused, Storage, Written

ODD_KEYS = (
    "odd/percent%3B",
    "odd/plus+plus",
    "odd/hash#hash",
    "odd/space space",
    "odd/question?mark=1&b",
    "odd/quote\"'quote",
    "odd/back\\slash",
    "odd/brace{}[]*",
    "odd/tilde~",
    "odd/colon:colon",
    "odd/Überschrift-日本-😀",
    "odd/tab\there",
    "odd/%2F",
    "odd/-dash",
    "odd/.dot",
    "odd/" + "n" * 200,
)


def written(outcome: Written | Refused) -> str:
    assert isinstance(outcome, Written)
    return outcome.etag


def keys(storage: Storage, prefix: str = "", start_after: str = "") -> list[str]:
    return [entry.key for entry in storage.list(prefix, start_after=start_after)]


def body(storage: Storage, key: str) -> bytes | None:
    stored = storage.get(key)
    return stored.body if stored else None

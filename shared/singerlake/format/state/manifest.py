"""``manifest.json``: the model's JSON, both ways, and the checks before it is believed."""

from __future__ import annotations

import msgspec

from singerlake.errors import CorruptObjectError, ForeignManifestError, UnsupportedFormatError
from singerlake.format import FORMAT, NEWEST_FORMAT, SEGMENTS_FORMAT
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode, encode
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.large_manifest import in_pieces
from singerlake.format.state.model import Manifest
from singerlake.interpreter.process import collector_paused

LARGE = 64 << 20
"""Bytes of a manifest from which on memory matters more than a third more time: some 150,000 files."""
_OWN_BEGINNINGS = tuple(b'{"format":%d,' % known for known in range(FORMAT, NEWEST_FORMAT + 1))


class _ManifestHead(msgspec.Struct):
    format: object = None


def to_json(manifest: Manifest) -> bytes:
    """The manifest as stored: one JSON object."""
    return encode(manifest)


def head_of(manifest: Manifest) -> Manifest:
    """A state with segments as it is stored: they are named, and ``files`` are those behind them."""
    return msgspec.structs.replace(
        manifest,
        format=SEGMENTS_FORMAT,
        state_format=manifest.format,
        segments=manifest.files.segments,
        files=FileList(manifest.files.tail),
    )


def from_json(body: bytes, *, key: str, known: Manifest | None = None) -> Manifest:
    """Parse what is stored under ``key``. ``known``: a state of the stream that is at hand; files that are listed in
    both are the same objects, so that the two take little more memory than one. Raises ``CorruptObjectError``,
    ``UnsupportedFormatError``."""
    if not body.startswith(_OWN_BEGINNINGS):
        check_format(body, key=key, newest=NEWEST_FORMAT)
    try:
        with collector_paused():
            large = in_pieces(body, known.files if known else FileList()) if len(body) > LARGE else None
            return large or decode(body, Manifest)
    except msgspec.DecodeError as error:
        raise CorruptObjectError(
            f"not a manifest: {error}", hint="restore it, or delete it and run 'singerlake rebuild'", key=key
        ) from error


def check_format(body: bytes, *, key: str, newest: int = FORMAT) -> None:
    """Refuse what is not a JSON object, or was written in a format newer than ``newest``, before its fields are looked
    at."""
    try:
        written = decode(body, _ManifestHead).format
    except msgspec.DecodeError as error:
        raise CorruptObjectError(
            f"not a JSON object: {error}", hint="restore it, or delete it and run 'singerlake rebuild'", key=key
        ) from error
    if not isinstance(written, int) or isinstance(written, bool) or written < 1:
        raise CorruptObjectError("has no format number", hint="is this a Singerlake's object?", key=key)
    if written > newest:
        raise UnsupportedFormatError(
            f"written in format {written}, this version reads up to {newest}",
            hint="upgrade singerlake",
            key=key,
        )


def check_own(manifest: Manifest, *, tap: str, stream: str, store: str | None, key: str) -> Manifest:
    """The manifest, if it is the one that belongs at ``key``. Raises ``ForeignManifestError``.

    On a file system that folds case, the streams ``A`` and ``a`` share a folder; this keeps them from mixing.
    """
    for field, actual, expected in (
        ("tap", manifest.tap, tap),
        ("stream", manifest.stream, stream),
        ("store", manifest.store, store if store is not None else manifest.store),
    ):
        if actual != expected:
            raise ForeignManifestError(
                f"manifest belongs to {field} {actual!r}, not {expected!r}",
                hint="nothing was written; use the matching setting, or another lake root",
                key=key,
            )
    return manifest


prepare_decoders(_ManifestHead)

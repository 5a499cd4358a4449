"""BATCH messages: files of bare records, each of which becomes a RECORD message with the very bytes of its record.

The SDK's form (https://sdk.meltano.com/en/latest/batch.html): ``encoding`` is ``{"format": "jsonl", "compression":
"gzip" | "none" | null}``, ``manifest`` a list of URLs, which are read as singer-sdk reads them and, where no file is
there, as URLs. The files belong to the tap; they are read and left alone.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

import msgspec

from singerlake.errors import InvalidMessageError
from singerlake.format.decoders import prepare_decoders
from singerlake.storage.port import Storage
from singerlake.storage.roots import OF_BUCKETS
from target_singerlake.errors import UnreadableLineError, unreadable
from target_singerlake.input.messages import encode
from target_singerlake.input.passthrough import envelope, parse

_BLOCK = 1 << 20
_KEPT = ("time_extracted", "version")


class _AnyObject(msgspec.Struct, gc=False):
    """Any JSON object; its members are looked past."""


_is_object = msgspec.json.Decoder(_AnyObject).decode


class Batch:
    """One BATCH message. Raises ``UnreadableLineError``, ``InvalidMessageError``."""

    def __init__(self, line: bytes, number: int) -> None:
        content = parse(line, number)
        _, self.stream = envelope(content, line, number)
        encoding, manifest = content.get("encoding"), content.get("manifest")
        if not isinstance(encoding, dict) or not isinstance(manifest, list):
            raise unreadable("a BATCH message has no encoding or no manifest", line, number)
        if not all(isinstance(url, str) and url for url in manifest):
            raise unreadable("the manifest of a BATCH message is not a list of URLs", line, number)
        form, compression = encoding.get("format"), encoding.get("compression")
        if form != "jsonl" or compression not in ("gzip", "none", None):
            raise InvalidMessageError(
                "a BATCH message is in an encoding that is not supported",
                hint="set the tap's batch_config to format jsonl, compression gzip or none",
                line=number,
                format=form,
                compression=compression,
            )
        self.urls: list[str] = manifest
        self._gzip = compression == "gzip"
        self._before, self._after = _envelope(content, self.stream)

    def blocks(self, url: str, open_storage: Callable[[str], Storage]) -> Iterator[tuple[bytes, int]]:
        """The records of one file as RECORD lines, in blocks, each with its first line's number in the file.
        ``open_storage`` opens a bucket, which is named as a lake's root is. Raises ``UnreadableLineError`` for a line
        that is not a JSON object, ``InvalidMessageError`` for a file that cannot be read, and what storage raises."""
        number = 1
        with closing(_opened(url, open_storage)) as raw:
            try:
                for lines in _lines(_inflated(raw) if self._gzip else raw):
                    yield b"".join(self._wrapped(line, number + index) for index, line in enumerate(lines)), number
                    number += len(lines)
            except (EOFError, OSError) as error:
                raise _unreadable_file(error) from error

    def _wrapped(self, line: bytes, number: int) -> bytes:
        record = line.strip()
        if not record:
            return b"\n"
        # The record must be one whole JSON object of its own, or it could close the envelope and open another.
        try:
            _is_object(record)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            self._require_object(record, number)
        return self._before + record + self._after

    def _require_object(self, record: bytes, number: int) -> None:
        """A second hearing by ``json``. The error shows nothing of the line, which is all record."""
        with suppress(InvalidMessageError):
            if isinstance(parse(record, number, exact=False), dict):
                return
        raise UnreadableLineError(
            "a line of a BATCH file is not a JSON object",
            hint="look at what the tap writes",
            line=number,
            length=len(record),
        )


def _envelope(content: dict[str, Any], stream: str) -> tuple[bytes, bytes]:
    kept = {name: content[name] for name in _KEPT if content.get(name) is not None}
    before = encode({"type": "RECORD", "stream": stream})[:-1] + b',"record":'
    after = b"".join(b"," + encode(name) + b":" + encode(value) for name, value in kept.items()) + b"}\n"
    return before, after


def _opened(url: str, open_storage: Callable[[str], Storage]) -> BinaryIO:
    try:
        scheme = urlsplit(url).scheme
    except ValueError as error:
        raise _unreadable_file(error) from error
    if scheme in OF_BUCKETS:
        bucket, _, key = url[len(f"{scheme}://") :].partition("/")
        return open_storage(f"{scheme}://{bucket}").open(key)
    if scheme not in ("", "file"):
        raise InvalidMessageError(
            "a BATCH file is in a place that this target cannot read",
            hint="use a path, file://, s3://, gs://, az:// or abfss://",
            scheme=scheme,
        )
    failures: list[Exception] = []
    for path in _paths(url) if scheme else (url,):
        try:
            return Path(path).open("rb")
        except (OSError, ValueError) as error:
            # ValueError: what no path may hold.
            failures.append(error)
    raise _unreadable_file(failures[0]) from failures[0]


def _paths(url: str) -> Iterator[str]:
    """What a ``file:`` URL may mean, the likeliest first: singer-sdk takes everything behind ``file://`` for a path as
    it stands, relative where no slash begins it; by RFC 8089 a host comes first, and the path is percent-encoded."""
    stands = url[len("file:") :].removeprefix("//")
    yield os.path.expanduser(stands)
    decoded = unquote(stands)
    yield decoded
    host, slash, path = decoded.partition("/")
    if host.lower() == "localhost":
        yield slash + path


def _unreadable_file(error: Exception) -> InvalidMessageError:
    reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return InvalidMessageError(
        f"a BATCH file cannot be read: {reason.lower()}",
        hint="the tap and the target must see the same files; a relative path is looked for where the target runs",
    )


def _inflated(raw: BinaryIO) -> Any:
    from isal import igzip

    opened: Any = igzip.GzipFile
    return opened(fileobj=raw, mode="rb")


def _lines(source: Any) -> Iterator[list[bytes]]:
    """Lines by about a megabyte; the last one may lack its newline."""
    while lines := source.readlines(_BLOCK):
        yield lines


prepare_decoders(_AnyObject)

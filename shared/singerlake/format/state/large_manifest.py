"""A large ``manifest.json`` as Singerlake writes it, decoded a piece of its files at a time.

Decoded at once, a million files take a gigabyte beside their text. Much of that is the same over and over: the version,
one number of messages three times, and, where another state of the stream is at hand, nearly every file. A piece is
rid of what is there already before the next one is decoded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import force_setattr

from singerlake.format.exact_json import decode, encode
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.model import Manifest

PIECE = 1 << 16
"""Bytes of text that are decoded at once, or a little more, up to a file's end."""
_FILES = b',"files":['
_FIRST = _FILES + b'{"id":"'
_AFTER = b'],"retired":['
_BETWEEN = b'},{"id":"'
_STAND_IN = DataFile(
    id="*",
    path="",
    version="",
    messages=-1,
    records=-1,
    bytes=-1,
    raw_bytes=-1,
    sha256="",
    first="",
    last="",
    members=(),
    offset=-1,
)


def in_pieces(body: bytes, known: FileList, *, piece: int = PIECE) -> Manifest | None:
    """The manifest that ``body`` holds, with the files that it has in common with ``known`` as the same objects; None
    where ``body`` is not laid out as Singerlake does, or is not a manifest: decoding all of it tells which.

    No text between quotes holds a quote that is not escaped, so what marks the ends of the list cannot be part of a
    name. It can be part of a schema; then what is left around the list is not JSON, or names other files than the one
    that stands in for the list.
    """
    end = body.rfind(_AFTER)
    start = body.rfind(_FIRST, 0, max(end, 0)) + len(_FILES)
    if start < len(_FILES):
        return None
    try:
        around = decode(body[:start] + encode(_STAND_IN) + body[end:], Manifest)
        if around.files != (_STAND_IN,):
            return None
        versions = {version: version for version in around.versions}
        files: list[DataFile] = []
        for text in _cut(body, start, end, piece):
            found = decode(text, list[DataFile])
            if known:
                files += _as_known(found, known, versions)
            else:
                _share(found, versions)
                files += found
    except msgspec.DecodeError:
        return None
    return msgspec.structs.replace(around, files=FileList(files))


def _cut(body: bytes, start: int, end: int, piece: int) -> Iterator[bytes]:
    """The files between ``start`` and ``end``, as lists of some of them. Where a cut is not between two files, the
    brackets on both sides of it do not match."""
    while start < end:
        cut = body.find(_BETWEEN, start + piece, end) + 1 or end
        yield b"[%b]" % body[start:cut]
        start = cut + 1


def _as_known(files: list[DataFile], known: FileList, versions: dict[str, str]) -> Sequence[DataFile]:
    """``files``, with the known object in place of each file that is known."""
    place = known.index_behind(files[0].offset)
    there = known[place : place + len(files)]
    if there == tuple(files):
        return there
    same = [before if (before := known.by_id.get(file.id)) == file else None for file in files]
    _share((file for file, before in zip(files, same, strict=True) if before is None), versions)
    return [before or file for file, before in zip(files, same, strict=True)]


def _share(files: Iterable[DataFile], versions: dict[str, str]) -> None:
    """Let equal values be one object; nobody else has seen the files yet."""
    set_to = force_setattr
    for file in files:
        version, messages, members = file.version, file.messages, file.members
        set_to(file, "version", versions.setdefault(version, version))
        if file.first == file.last:
            set_to(file, "last", file.first)
        if file.records == messages:
            set_to(file, "records", messages)
        if len(members) == 1 and members[0][1] == messages:
            set_to(file, "members", ((members[0][0], messages),))

"""The SCHEMA message of one data file, and with it the one that was the newest before an offset."""

from __future__ import annotations

import io

from singerlake.errors import BrokenFileError
from singerlake.format import layout
from singerlake.format.lines.messages import is_schema_line
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.totals import totals_of
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.format.state.selection import schema_in_force, schema_of
from singerlake.singer_file import first_line
from singerlake.storage.port import Storage
from singerlake.upkeep.scan.lines import schema_in


def schema_line(storage: Storage, prefix: str, file: DataFile, head: bytes | None = None) -> bytes:
    """The file's own SCHEMA message, with its newline. ``head``: the bytes before the first tabled member, where they
    were read already. Raises ``BrokenFileError`` and what storage raises.

    A writer of this package has it stand alone there; elsewhere it may share a member with messages.
    """
    key = prefix + file.path
    where = {"key": key, "id": file.id}
    end = file.members[0][0] if file.members else file.bytes
    if head is None and end:
        head = storage.read_range(key, 0, end)
    line = first_line(io.BytesIO(head), where=where) if head else None
    if line is None:
        with storage.open(key) as body:
            line = first_line(body, where=where)
    if line is None or not is_schema_line(line):
        raise _broken(where)
    return line


def schema_before(storage: Storage, manifest: Manifest, offset: int) -> StreamSchema | None:
    """What the newest SCHEMA message of the stream said before the message ``offset`` came; None where no message is
    left of what was before. The state says it, unless a later file has the same version: then it is read from a file.
    Raises as ``schema_line``, and ``CorruptObjectError``."""
    if offset >= manifest.next_offset:
        return schema_in_force(manifest)
    if offset <= manifest.floor:
        return None
    file = manifest.files[manifest.files.index_behind(offset - 1)]
    if file.version not in totals_of(manifest.files_from(file.end)).versions:
        return schema_of(manifest, file.version)
    prefix = layout.stream_prefix(manifest.tap, manifest.stream)
    said = schema_in(schema_line(storage, prefix, file))
    if said is None:
        raise _broken({"key": prefix + file.path, "id": file.id})
    return said[1]


def _broken(where: dict[str, str]) -> BrokenFileError:
    return BrokenFileError("does not begin with a SCHEMA message", hint="run 'singerlake verify'", **where)

"""``schema.json``: the schema of a version that began without a message, so that files alone tell of the stream."""

from __future__ import annotations

import msgspec

from singerlake.format import FORMAT
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import decode_stored, encode
from singerlake.format.state.manifest import check_format
from singerlake.format.state.model import StreamSchema


class KeptSchema(StreamSchema, frozen=True, kw_only=True):
    """A SCHEMA message's content, whose it is, and who kept it when (RFC 3339, UTC)."""

    format: int = FORMAT
    tap: str
    stream: str
    created: str
    run: str
    lake_id: str | None = None

    @property
    def content(self) -> StreamSchema:
        """What the message said."""
        return StreamSchema(
            schema=self.schema, key_properties=self.key_properties, bookmark_properties=self.bookmark_properties
        )

    @property
    def order(self) -> tuple[bool, str, str, int]:
        """Its place among the stream's files: before those of its run, and before all that do not say when."""
        return False, self.created, self.run, 0


def kept(
    schema: StreamSchema, *, tap: str, stream: str, created: str, run: str, lake_id: str | None = None
) -> KeptSchema:
    said = msgspec.structs.asdict(schema)
    return KeptSchema(**said, tap=tap, stream=stream, created=created, run=run, lake_id=lake_id)


def to_json(schema: KeptSchema) -> bytes:
    return encode(schema)


def from_json(body: bytes, *, key: str) -> KeptSchema:
    """Parse what is stored under ``key``. Raises ``CorruptObjectError``, ``UnsupportedFormatError``."""
    check_format(body, key=key)
    return decode_stored(body, KeptSchema, "not a kept schema", hint="restore it, or delete it", key=key)


prepare_decoders(KeptSchema)

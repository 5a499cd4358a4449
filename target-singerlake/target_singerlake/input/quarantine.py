"""Records that do not match their schema, or whose schema is not allowed, in a stream of their own beside their
stream's, so that nothing is lost."""

from __future__ import annotations

import logging

from singerlake.errors import SchemaChangeError
from singerlake.format.quarantine import COLUMNS, PROPERTY, RULE, SCHEMA, quarantine_of
from singerlake.format.schema_hash import schema_hash
from target_singerlake.errors import RecordAgainstSchemaError
from target_singerlake.input.messages import Message, Records, encode
from target_singerlake.input.passthrough import parse
from target_singerlake.input.schema import Schema, schema_of


class Quarantine:
    """Says of the first record of each stream that it is there."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._schemas: dict[str, tuple[bytes, Schema, str]] = {}

    def take(
        self, schema: Schema, record: Records, error: RecordAgainstSchemaError | SchemaChangeError
    ) -> tuple[Schema, Records]:
        """The message of a record as one of the quarantine, and the schema there: ``schema``, which it was sent with,
        with what is wrong in columns behind it, and without a key, which the record may lack. Raises
        ``InvalidSchemaError``."""
        known = self._schemas.get(schema.stream)
        if known is None:
            is_change = isinstance(error, SchemaChangeError)
            self._logger.warning(
                "Stream %r: line %d has a record %s (property %r, %s %r); such records are in stream %r",
                schema.stream,
                record.number,
                "of a schema that is not allowed" if is_change else "that does not match its schema",
                error.context["property"],
                *(("change", error.context["change"]) if is_change else ("rule", error.context["rule"])),
                quarantine_of(schema.stream),
            )
        own, version = self._beside(schema, record.number)
        message = parse(record.data, record.number)
        message["stream"] = own.stream
        message["record"] |= {PROPERTY: error.context["property"], RULE: error.context["rule"], SCHEMA: version}
        return own, Records(own.stream, encode(message) + b"\n", 1, record.number, record.times)

    def activation(self, schema: Schema, message: Message) -> tuple[Schema, bytes]:
        """An ACTIVATE_VERSION of a stream all of whose records go to the quarantine, as one there: in the stream it
        would say that its rows of before are gone."""
        own, _ = self._beside(schema, message.number)
        return own, encode({**parse(message.line, message.number), "stream": own.stream}) + b"\n"

    def _beside(self, schema: Schema, number: int) -> tuple[Schema, str]:
        """The schema of the quarantine beside that of a stream, and the hash of the latter."""
        known = self._schemas.get(schema.stream)
        if known is None or known[0] != schema.identity:
            known = schema.identity, self._schema(schema, number), schema_hash(schema.content.schema)
            self._schemas[schema.stream] = known
        return known[1:]

    def _schema(self, schema: Schema, number: int) -> Schema:
        message = parse(schema.line, number)
        message |= {"stream": quarantine_of(schema.stream), "key_properties": []}
        message.pop("bookmark_properties", None)
        message["schema"]["properties"] |= {name: {"type": "string"} for name in COLUMNS}
        return schema_of(encode(message) + b"\n", number)

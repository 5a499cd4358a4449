"""``validate_records``: a look at each record with singer-sdk's JSON Schema validator. It changes nothing."""

from __future__ import annotations

from typing import Any

from jsonschema.exceptions import ValidationError
from singer_sdk.exceptions import InvalidJSONSchema
from singer_sdk.sinks.core import JSONSchemaValidator

from singerlake.errors import InvalidSchemaError
from target_singerlake.errors import RecordAgainstSchemaError
from target_singerlake.input.messages import Records
from target_singerlake.input.passthrough import parse
from target_singerlake.input.schema import Schema


class Validators:
    """One validator a stream, made anew when its schema changes."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[bytes, Any]] = {}

    def check(self, schema: Schema, record: Records) -> None:
        """Look at one record. Raises ``RecordAgainstSchemaError``, whose text names the place and the rule but shows no
        value, and ``InvalidSchemaError``."""
        try:
            self._validator(schema, record.number).validate(parse(record.data, record.number)["record"])
        except ValidationError as error:
            raise RecordAgainstSchemaError(
                "a record does not match its schema",
                hint="correct the tap, or unset validate_records",
                line=record.number,
                stream=record.stream,
                property=".".join(str(step) for step in error.absolute_path),
                rule=str(error.validator),
            ) from None
        except RecursionError:
            # One that refers to itself without end, or a record that is deeper than any schema may be.
            raise InvalidSchemaError(
                "a record cannot be validated: it or its schema is nested too deeply",
                hint="unset validate_records",
                line=record.number,
                stream=record.stream,
            ) from None

    def _validator(self, schema: Schema, number: int) -> Any:
        made = self._made.get(schema.stream)
        if made is None or made[0] != schema.identity:
            try:
                made = schema.identity, JSONSchemaValidator(schema.content.schema).validator
            except InvalidJSONSchema as error:
                raise InvalidSchemaError(
                    "a schema is not valid JSON Schema",
                    hint="correct the tap, or unset validate_records",
                    line=number,
                    stream=schema.stream,
                ) from error
            self._made[schema.stream] = made
        return made[1]

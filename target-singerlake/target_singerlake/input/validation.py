"""``validate_records``: a look at each record with a JSON Schema validator. It changes nothing."""

from __future__ import annotations

import re
from decimal import Context, localcontext
from typing import Any

from jsonschema.exceptions import SchemaError, UnknownType, ValidationError
from referencing.exceptions import Unresolvable

from singerlake.errors import InvalidSchemaError
from target_singerlake.errors import EXCERPT, RecordAgainstSchemaError
from target_singerlake.input.drafts import PatternError, validator_of
from target_singerlake.input.messages import Records
from target_singerlake.input.passthrough import parse
from target_singerlake.input.schema import Schema

_HINT = "correct the tap, or unset validate_records"


class Validators:
    """One validator a stream, made anew when its schema changes."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[bytes, Any]] = {}

    def check(self, schema: Schema, record: Records) -> None:
        """Look at one record. Raises ``RecordAgainstSchemaError``, whose text names the place and the rule but shows no
        value, and ``InvalidSchemaError``."""
        where = {"line": record.number, "stream": record.stream}
        try:
            # Without traps NaN, which is a float, compares with decimals as with other floats: never.
            with localcontext(Context(traps=[])):
                self._validator(schema, record.number).validate(parse(record.data, record.number)["record"])
        except ValidationError as error:
            raise RecordAgainstSchemaError(
                "a record does not match its schema",
                hint=_HINT,
                **where,
                property=_path(error),
                rule=str(error.validator),
            ) from None
        except SchemaError as error:
            where["at"] = _path(error)
            if isinstance(error.cause, PatternError):
                raise _not_a_pattern(error.cause, where) from None
            raise InvalidSchemaError(
                "a schema is not valid JSON Schema", hint=_HINT, **where, rule=str(error.validator)
            ) from None
        except PatternError as error:
            raise _not_a_pattern(error, where) from None
        except Unresolvable as error:
            raise InvalidSchemaError(
                "a schema refers to what it does not hold, and nothing is fetched for it",
                hint=_HINT,
                **where,
                ref=_short(error.ref),
            ) from None
        except RecursionError:
            # One that refers to itself without end, or a record that is deeper than any schema may be.
            raise InvalidSchemaError(
                "a record cannot be validated: it or its schema is nested too deeply",
                hint="unset validate_records",
                **where,
            ) from None
        except (AttributeError, TypeError, ValueError, UnknownType, re.error) as error:
            # What no meta-schema forbids and jsonschema cannot work with: a `$ref` that is not text, in Draft 4; a
            # pattern that Python's `re` does not know, beside `unevaluatedProperties`.
            raise InvalidSchemaError(
                "a schema cannot be validated with", hint="unset validate_records", **where
            ) from error

    def _validator(self, schema: Schema, number: int) -> Any:
        made = self._made.get(schema.stream)
        if made is None or made[0] != schema.identity:
            exact = parse(schema.line, number)["schema"]
            made = schema.identity, validator_of(schema.content.schema, exact)
            self._made[schema.stream] = made
        return made[1]


def _path(error: ValidationError | SchemaError) -> str:
    return ".".join(str(step) for step in error.absolute_path)


def _not_a_pattern(error: PatternError, where: dict[str, Any]) -> InvalidSchemaError:
    return InvalidSchemaError(
        "a pattern is not a regular expression of ECMA-262", hint=_HINT, **where, pattern=_short(error.pattern)
    )


def _short(text: object) -> str:
    return str(text)[:EXCERPT]

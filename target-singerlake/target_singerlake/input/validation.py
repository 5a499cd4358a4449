"""``validate_records``: records and JSON Schema, each draft, numbers with all digits, patterns of ECMA-262."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Context, Decimal, localcontext
from functools import lru_cache
from typing import Any

import attrs
from jsonschema import (
    Draft3Validator,
    Draft4Validator,
    Draft6Validator,
    Draft7Validator,
    Draft201909Validator,
    Draft202012Validator,
    FormatChecker,
    validators,
)
from jsonschema.exceptions import SchemaError, UnknownType, ValidationError
from referencing import Registry
from referencing.exceptions import Unresolvable
from regress import Regex, RegressError

from singerlake.errors import InvalidSchemaError
from target_singerlake.errors import EXCERPT, RecordAgainstSchemaError
from target_singerlake.input.messages import Records
from target_singerlake.input.passthrough import parse
from target_singerlake.input.plain_schema import acceptance
from target_singerlake.input.schema import Schema

_HINT = "correct the tap, or unset validate_records"

FITTING = (Draft202012Validator, Draft201909Validator, Draft7Validator, Draft6Validator, Draft4Validator)
"""Where a schema does not say its draft, it is of the first of these that it is valid in. Draft 3 takes every word for
a type, so a schema has to say that it is of it."""
SAID = {str(draft.META_SCHEMA["$schema"]).rstrip("#"): draft for draft in (*FITTING, Draft3Validator)}


class Validators:
    """One validator a stream, made anew when its schema changes."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[bytes, Any, Callable[[bytes], bool] | None]] = {}

    def check(self, schema: Schema, record: Records) -> None:
        """Look at one record. Raises ``RecordAgainstSchemaError``, whose text names the place and the rule but shows no
        value, and ``InvalidSchemaError``."""
        where = {"line": record.number, "stream": record.stream}
        try:
            validator, accepts = self._validator(schema, record.number)
            if accepts is not None and accepts(record.data):
                return
            content = parse(record.data, record.number)["record"]
            for name in schema.content.key_properties:
                if name not in content:
                    raise RecordAgainstSchemaError(
                        "a record has not all key properties", hint=_HINT, **where, property=name, rule="key_properties"
                    )
            # Without traps NaN, which is a float, compares with decimals as with other floats: never.
            with localcontext(Context(traps=[])):
                validator.validate(content)
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

    def _validator(self, schema: Schema, number: int) -> tuple[Any, Callable[[bytes], bool] | None]:
        made = self._made.get(schema.stream)
        if made is None or made[0] != schema.identity:
            exact = parse(schema.line, number)["schema"]
            validator = validator_of(schema.content.schema, exact)
            made = schema.identity, validator, acceptance(schema.content.schema, schema.content.key_properties)
            self._made[schema.stream] = made
        return made[1:]


def _path(error: ValidationError | SchemaError) -> str:
    return ".".join(str(step) for step in error.absolute_path)


def _not_a_pattern(error: PatternError, where: dict[str, Any]) -> InvalidSchemaError:
    return InvalidSchemaError(
        "a pattern is not a regular expression of ECMA-262", hint=_HINT, **where, pattern=_short(error.pattern)
    )


def _short(text: object) -> str:
    return str(text)[:EXCERPT]


class PatternError(ValueError):
    """A text that is not a regular expression of ECMA-262. ``pattern`` is the text."""

    def __init__(self, pattern: str, reason: str) -> None:
        super().__init__(reason)
        self.pattern = pattern


def validator_of(schema: Mapping[str, Any], exact: Mapping[str, Any]) -> Any:
    """A validator for ``exact``, which is ``schema`` with its numbers as decimals. It raises ``PatternError`` at a
    pattern that its draft's meta-schema does not check, and ``referencing.exceptions.Unresolvable`` at a reference to
    another document: none is ever fetched. Raises ``SchemaError``; where no draft fits, it is the newest draft's."""
    said = schema.get("$schema")
    named = SAID.get(said.rstrip("#")) if isinstance(said, str) else None
    newest: SchemaError | None = None
    for draft in (named,) if named else FITTING:
        try:
            draft.check_schema(schema, format_checker=FormatChecker(formats=()))
        except SchemaError as error:
            newest = newest or error
            continue
        draft.check_schema(schema, format_checker=_REGEX)
        return _exact(draft)(exact, registry=Registry())
    assert newest is not None
    raise newest


def is_multiple(value: Decimal | int | float, of: Decimal | int | float) -> bool:
    """Whether ``value`` is an integer times ``of``, of any number of digits. NaN and the infinities are not."""
    if isinstance(value, float) or isinstance(of, float):
        return False
    (whole, exponent), (divisor, least) = _scaled(value), _scaled(of)
    # What does not end in 0 has no factor 10 that `of` could lack. pow() makes no number of `exponent` digits.
    return not whole or (exponent >= least and whole * pow(10, exponent - least, divisor) % divisor == 0)


def _scaled(number: Decimal | int) -> tuple[int, int]:
    """A number's size as an integer that does not end in 0, and the power of ten that it is to be multiplied with."""
    _, digits, exponent = Decimal(number).as_tuple()
    assert isinstance(exponent, int)
    end = next((end for end in range(len(digits), 0, -1) if digits[end - 1]), 0)
    # Decimal makes an integer of any number of digits, int() of 4,300.
    return int(Decimal((0, digits[:end], 0))), exponent + len(digits) - end


@lru_cache(maxsize=1_000)
def _regex(pattern: str) -> Regex:
    """Raises ``PatternError``."""
    try:
        return Regex(pattern, "u")
    except (RegressError, UnicodeEncodeError):
        pass
    try:
        # Without the flag, ECMA-262 takes escapes and classes that web browsers have always taken.
        return Regex(pattern)
    except (RegressError, UnicodeEncodeError) as error:
        raise PatternError(pattern, str(error)) from None


def _matches(pattern: str, text: str) -> bool:
    regex = _regex(pattern)
    try:
        return regex.find(text) is not None
    except UnicodeEncodeError:
        # Half of a surrogate pair, which JSON allows and the engine does not take.
        return regex.find(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")) is not None


_REGEX = FormatChecker(formats=())


@_REGEX.checks("regex", raises=PatternError)
def _is_regex(value: object) -> bool:
    return not isinstance(value, str) or bool(_regex(value))


# Keywords, as jsonschema asks for them.

Errors = Iterator[ValidationError]


def _multiple_of(validator: Any, of: Any, value: Any, schema: Any) -> Errors:
    if validator.is_type(value, "number") and not is_multiple(value, of):
        yield ValidationError("not a multiple")


def _pattern(validator: Any, pattern: str, value: Any, schema: Any) -> Errors:
    if validator.is_type(value, "string") and not _matches(pattern, value):
        yield ValidationError("no match")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], value: Any, schema: Any) -> Errors:
    if validator.is_type(value, "object"):
        for pattern, below in patterns.items():
            for name, each in value.items():
                if _matches(pattern, name):
                    yield from validator.descend(each, below, path=name, schema_path=pattern)


def _additional_properties(validator: Any, below: Any, value: Any, schema: Any) -> Errors:
    if not validator.is_type(value, "object"):
        return
    declared, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    for name, each in value.items():
        if name not in declared and not any(_matches(pattern, name) for pattern in patterns):
            if validator.is_type(below, "object"):
                yield from validator.descend(each, below, path=name)
            elif not below:
                yield ValidationError("not declared")


_KEYWORDS = {
    "divisibleBy": _multiple_of,
    "multipleOf": _multiple_of,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
}


@lru_cache
def _exact(draft: Any) -> Any:
    """A draft's validator with these keywords, for which 1.0 is an integer where it is one in the draft."""
    types = draft.TYPE_CHECKER
    if types.is_type(1.0, "integer"):
        types = types.redefine("integer", _is_integer)
    known = {name: keyword for name, keyword in _KEYWORDS.items() if name in draft.VALIDATORS}
    made: Any = validators.extend(draft, validators=known, type_checker=types)  # type: ignore[no-untyped-call]
    # jsonschema's own takes another class below each `$schema`, which would not have these keywords.
    made.evolve = attrs.evolve
    return made


def _is_integer(_: Any, value: object) -> bool:
    if isinstance(value, Decimal):
        return value == value.to_integral_value()
    return isinstance(value, int) and not isinstance(value, bool)

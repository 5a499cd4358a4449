"""Values of a line as they were written: found without parsing what lies in them, so that JSON text stays what it is,
and however deep it is nested.

Only for strict JSON; what ``json.loads`` takes beyond it is read by ``values``.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import msgspec

from singerlake.arrow.schema.columns import Array, Column, JsonText, Struct, Variant
from singerlake.arrow.values.values import Lost, MisfitError, describe, fit, kind, parse, slot, text_of

NOT_STRICT = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What is raised for a line that is not strict JSON, or is nested deeper than the interpreter goes."""
_PARSER = json.JSONDecoder()
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_NOTHING = b"null"


def text_at(line: bytes, keys: tuple[str, ...]) -> bytes:
    """The JSON text that names of properties lead to, from the line inwards; ``null`` where there is nothing. Raises
    one of ``NOT_STRICT``."""
    text = line.strip(b" \t\r\n")  # JSON's white space; Python's own has more
    for key in keys:
        text = bytes(_OBJECT.decode(text).get(key, _NOTHING)) if text[:1] == b"{" else _NOTHING
    return text


def captured(line: bytes) -> str:
    """The record of a RECORD message as it was written; anew, with the same values, where that is no UTF-8."""
    try:
        return text_at(line, ("record",)).decode()
    except NOT_STRICT:
        pass
    text = line.decode("utf-8", "surrogatepass")
    record = _member(text, "record")
    try:
        record.encode()
    except UnicodeEncodeError:
        return text_of(parse(line)["record"])
    return record


def _member(text: str, name: str) -> str:
    """The text of an object's last member of that name, by a parser that takes what ``json.loads`` takes."""
    written, at = "", text.index("{")
    while text[at] != "}":
        key, at = _PARSER.raw_decode(text, _behind_space(text, at + 1))
        begin = _behind_space(text, _behind_space(text, at) + 1)
        _, end = _PARSER.raw_decode(text, begin)
        if key == name:
            written = text[begin:end]
        at = _behind_space(text, end)
    return written


def _behind_space(text: str, at: int) -> int:
    while text[at] in " \t\n\r":
        at += 1
    return at


def fit_text(text: bytes, column: Column, path: str, lost: list[Lost] | None, keys: tuple[str, ...]) -> Any:
    """As ``values.fit``, of a value's JSON text. Raises ``Misfit``, and one of ``NOT_STRICT`` for what is no strict
    JSON."""
    if text == _NOTHING:
        return None
    if isinstance(column, JsonText | Variant):
        return text.decode()
    if isinstance(column, Struct) and text[:1] == b"{":
        return _fit_object(text, column, path, lost, keys)
    if isinstance(column, Array) and text[:1] == b"[":
        return [fit_text(bytes(item), column.element, path + "[]", None, ()) for item in _ARRAY.decode(text)]
    if text[:1] in (b"{", b"["):
        raise MisfitError(path, describe(column), kind({} if text[:1] == b"{" else []))
    return fit(parse(text), column, path)


def fit_texts(record: bytes, columns: Struct, lost: list[Lost]) -> SimpleNamespace:
    """As ``values.fit_record``, of a record's JSON text. Raises one of ``NOT_STRICT``."""
    return _fit_object(record, columns, "", lost, ())


def _fit_object(
    text: bytes, columns: Struct, path: str, lost: list[Lost] | None, keys: tuple[str, ...]
) -> SimpleNamespace:
    properties = _OBJECT.decode(text)
    prefix = path + "." if path else ""
    fitted = SimpleNamespace()
    for index, field in enumerate(columns.fields):
        written = bytes(properties.get(field.name, _NOTHING))
        here = (*keys, field.name)
        try:
            value = fit_text(written, field.type, prefix + field.name, lost, here)
        except MisfitError as misfit:
            if lost is None:
                raise
            lost.append(Lost(here, written.decode(), misfit))
            value = None
        setattr(fitted, slot(index), value)
    return fitted

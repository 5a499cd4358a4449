"""How objects show themselves to a person: on one line in Python, and in a notebook as that line or a small table.

Names come from taps. What could move a cursor, colour a line or be taken for HTML is escaped. Fields that dataclasses
keep out of their own ``repr``, as secrets are, stay out of this one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from html import escape
from typing import Any, TypeVar

from singerlake.humanize import cut, shown

_ROWS = 20
"""Of a table in a notebook: what is looked at, and not the data."""
_LONGEST = 200
"""Characters of one value."""

Shown = TypeVar("Shown")


def at_a_glance(cls: type[Shown]) -> type[Shown]:
    """A dataclass whose objects show on one line the fields that say something, and of what they hold only how much.
    A notebook shows the first of the collections of dataclasses as a table."""
    setattr(cls, "__repr__", _line)  # noqa: B010
    setattr(cls, "_repr_html_", _html)  # noqa: B010
    return cls


def code(line: str) -> str:
    """One line as a notebook shows it."""
    return f"<code>{escape(shown(line))}</code>"


def html_table(titles: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A small table for a notebook, and below it how many rows it leaves out."""
    head = "".join(f"<th>{_text(title)}</th>" for title in titles)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows[:_ROWS])
    more = f"<p>and {len(rows) - _ROWS:,} more</p>" if len(rows) > _ROWS else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


def _text(value: object) -> str:
    return escape(shown(cut("" if value is None else str(value), _LONGEST)))


def _line(self: Any) -> str:
    return f"{type(self).__name__}({', '.join(_parts(self))})"


def _parts(of: Any) -> Iterator[str]:
    for name, value in _said(of):
        yield f"{name}={_value(value)}"


def _said(of: Any) -> Iterator[tuple[str, Any]]:
    """The fields that say something: what is nothing, none or no is left out."""
    for field in fields(of):
        value = getattr(of, field.name)
        if field.repr and (any(_said(value)) if _is_held(value) else value or isinstance(value, Exception)):
            yield field.name, value


def _is_held(value: Any) -> bool:
    return is_dataclass(value) and not isinstance(value, type)


def _value(value: Any) -> str:
    if isinstance(value, str):
        return repr(cut(value, _LONGEST))
    if _is_held(value):
        return f"{type(value).__name__}({', '.join(_parts(value))})"
    if isinstance(value, Collection):
        return f"<{len(value):,}>"
    return shown(cut(str(value), _LONGEST))


def _html(self: Any) -> str:
    """The line, and what is in the first collection of dataclasses, if there is one."""
    rows = next(filter(None, (_rows(value) for _, value in _said(self))), [])
    if not rows:
        return code(_line(self))
    titles = list(dict.fromkeys(name for row in rows for name in row))
    return code(_line(self)) + html_table(titles, [[row.get(title) for title in titles] for row in rows])


def _rows(held: Any) -> list[Mapping[str, object]]:
    """Of each of these dataclasses what its fields say."""
    if not isinstance(held, Sequence) or not held or not all(map(_is_held, held)):
        return []
    return [{name: value if isinstance(value, str) else _value(value) for name, value in _said(one)} for one in held]

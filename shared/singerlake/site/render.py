"""HTML from templates: everything that is put into a page is escaped, and made visible where it is not printable."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from singerlake.errors import SettingError
from singerlake.humanize import counted, cut, minute, second, shown, size
from singerlake.upkeep.annotate import SCHEMES

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
_JOINERS = "\u200c\u200d"
"""Without which words of some scripts, and some emoji, fall apart; they hide nothing."""
_UNITS = ((86400 * 365, "year"), (86400 * 30, "month"), (86400, "day"), (3600, "hour"), (60, "minute"))


@functools.cache
def environment() -> Environment:
    """The templates of this package. Raises ``SettingError`` where jinja2 is not installed."""
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise SettingError("the site's pages need jinja2", hint="run: pip install 'singerlake[docs]'") from error
    made = Environment(
        loader=FileSystemLoader(HERE / "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
        auto_reload=False,
    )
    made.filters.update(
        name=_name,
        cut=cut,
        size=size,
        number=_number,
        counted=counted,
        line=_line,
        moment=_moment,
        iso=_iso,
        prose=_prose,
        lasted=_lasted,
        ago=_ago,
        link=_link,
    )
    return made


def render(template: str, values: Mapping[str, Any]) -> bytes:
    """One page as it is stored. Raises ``SettingError``."""
    return environment().get_template(template).render(values).encode()


def _printable(value: Any) -> Any:
    """What every expression of a template passes through before it is escaped. Markup, which a template made itself,
    is left as it is."""
    return shown(value) if type(value) is str else value


def _name(text: str, most: int = 300) -> str:
    """A name, in quotes where nothing of it could be seen."""
    return cut(text, most) if text.strip() else repr(cut(text, most))


def _number(value: int) -> str:
    return f"{value:,}"


def _moment(value: datetime | None) -> str:
    return minute(value) if value else "never"


def _iso(value: datetime) -> str:
    return second(value).replace(" ", "T") + "Z"


def _prose(text: str) -> Any:
    """A text of several lines, which a page shows as such (``white-space: pre-line``)."""
    from markupsafe import Markup, escape

    if text.isprintable():
        return text
    text = re.sub(r"\r\n?", "\n", text).strip()
    pieces = re.split(f"([\n\t{_JOINERS}])", text)
    return Markup("").join(piece if number % 2 else escape(shown(piece)) for number, piece in enumerate(pieces))


def _line(text: str) -> str:
    """A text of several lines as one."""
    return " ".join(text.split())


def _lasted(seconds: float | None) -> str:
    return "" if seconds is None else str(timedelta(seconds=int(seconds)))


def _ago(moment: datetime, now: datetime) -> str:
    """How long before ``now``, in the largest unit that fits."""
    seconds = (now - moment).total_seconds()
    for length, name in _UNITS:
        count = int(seconds // length)
        if count >= 1:
            return f"{count} {name}{'' if count == 1 else 's'} before"
    return "just before" if seconds >= 0 else "after"


def _link(url: str) -> str:
    """A URL that a page may link to; nothing for one that could be a program, wherever it came from."""
    scheme, colon, _ = url.partition(":")
    return url if colon and scheme.lower() in SCHEMES and url.isprintable() else ""

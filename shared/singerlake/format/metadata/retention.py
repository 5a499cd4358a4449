"""How long the messages of a stream are kept: section 12.3 of ``shared/docs/format``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import msgspec

from singerlake.errors import SettingError
from singerlake.format.decoders import prepare_decoders

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_AGE = re.compile(r"([0-9]{1,6})([smhd])\Z")
LONGEST = timedelta(days=36_500)
ALL_OTHERS = ""
"""Stands for the streams of a tap that are not named: no stream has an empty name."""


class Retention(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept: messages younger than ``older_than`` (``400d``), and the youngest ``keep_versions`` versions."""

    older_than: str | None = None
    keep_versions: int | None = None

    @property
    def age(self) -> timedelta | None:
        """``older_than`` as a time. Raises ``SettingError``."""
        return None if self.older_than is None else age_of(self.older_than)


@dataclass(frozen=True, slots=True)
class WrongRetention:
    """What stands for a retention and is of another type: nothing expires by it. ``why`` shows nothing of it."""

    why: str


Rule = Retention | WrongRetention


def rules_in(stored: Any) -> dict[str, Rule]:
    """A tap's ``retention`` by stream, written by hand, so any JSON; what is not an object is said of all streams."""
    if not isinstance(stored, dict):
        return {ALL_OTHERS: WrongRetention("it is not an object")}
    return {stream: _rule(each) for stream, each in stored.items()}


def with_rule(stored: Any, stream: str, retention: Retention | None) -> dict[str, Any]:
    """``stored`` with another ``retention`` of a stream, None: without any. Other streams and unknown fields stay."""
    rules = dict(stored) if isinstance(stored, dict) else {ALL_OTHERS: stored}
    before = rules.pop(stream, None)
    if retention is not None:
        known = Retention.__struct_fields__
        fields = before if isinstance(before, dict) else {}
        more = {name: value for name, value in fields.items() if name not in known}
        rules[stream] = {**more, **msgspec.to_builtins(retention)}
    return rules


def _rule(stored: Any) -> Rule:
    try:
        return msgspec.convert(stored, Retention)
    except msgspec.ValidationError as error:
        return WrongRetention(str(error))


def age_of(text: str, what: str = "age") -> timedelta:
    """``90s``, ``30m``, ``12h``, ``400d`` as a time, which an error calls ``what``. Raises ``SettingError``."""
    found = _AGE.match(text)
    if found is None:
        raise SettingError(f"{text!r} is not a valid {what}", hint="write 90s, 30m, 12h or 400d")
    age = timedelta(**{_UNITS[found[2]]: int(found[1])})
    if age > LONGEST:
        raise SettingError(f"{text!r} is longer than {LONGEST.days}d", hint="leave it out to keep everything")
    return age


def retention_of(rules: Mapping[str, Rule], stream: str) -> Rule | None:
    """What a tap's ``rules`` say of one of its streams; None: it is kept for ever."""
    return rules.get(stream, rules.get(ALL_OTHERS))


prepare_decoders(Retention)

"""Time and identities: the only module that asks the machine for either, so that tests can inject both."""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from singerlake.interpreter.threads import waiting

Answer = TypeVar("Answer")

IdSource = Callable[[], str]
"""Gives a fresh identity at each call: 16 characters of lower-case base32hex, 80 random bits."""


class Clock(Hashable, Protocol):
    """What the package needs to know of time."""

    def now(self) -> datetime:
        """The wall clock, aware, UTC."""

    def monotonic(self) -> float:
        """Seconds on a clock that never steps; only differences mean anything."""

    def sleep(self, seconds: float) -> None:
        """Wait that many seconds."""

    def jitter(self) -> float:
        """A random number in [0, 1), to spread retries."""


class SystemClock:
    """The machine's own clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        with waiting():
            time.sleep(seconds)

    def jitter(self) -> float:
        return random.random()


class Backoff:
    """Waits between tries that grow. Each is a part of a ceiling in seconds, which begins at ``first``, grows by the
    factor ``growth`` and ends at ``longest``. ``jitter`` is the share of it that chance decides: 1 is full jitter."""

    def __init__(self, clock: Clock, *, first: float, longest: float, growth: float = 1.5, jitter: float = 1.0) -> None:
        self._clock = clock
        self._ceiling = first
        self._longest = longest
        self._growth = growth
        self._jitter = jitter

    def next(self) -> float:
        """How long to wait now, in seconds."""
        seconds = self._ceiling
        if self._jitter:
            seconds *= 1 - self._jitter + self._jitter * self._clock.jitter()
        self._ceiling = min(self._ceiling * self._growth, self._longest)
        return seconds

    def wait(self) -> None:
        """Wait."""
        self._clock.sleep(self.next())


def attended(work: Callable[[], Answer]) -> tuple[Answer, float]:
    """What ``work`` gives, and for which share of its time this process ran: the rest it waited for disk or network."""
    began, ran = time.perf_counter(), time.process_time()
    answer = work()
    ran, took = time.process_time() - ran, time.perf_counter() - began
    return answer, min(1.0, ran / took) if took else 1.0


_DIGITS = b"0123456789abcdefghijklmnopqrstuv" * 8
"""Of base32hex, one for each byte."""


def random_id() -> str:
    """A fresh identity from the system's entropy: 16 digits of base32hex."""
    return os.urandom(16).translate(_DIGITS).decode("ascii")


def timestamp(moment: datetime) -> str:
    """RFC 3339 in UTC with microseconds: ``2026-01-01T00:00:00.001000Z``."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


_TIMESTAMP = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d)(?::(\d\d)(?::(\d\d)(?:[.,](\d+))?)?)?\s?(?:([Zz])|([+-]\d\d):?(\d\d)?)?\Z", re.ASCII
)


def parse_timestamp(text: str) -> datetime | None:
    """The moment an RFC 3339 / ISO 8601 date-time names, in UTC, cut to microseconds; None where it names none. A text
    without offset counts as UTC, as Singer taps mean it. Read here, since ``datetime.fromisoformat`` takes only some
    numbers of digits before Python 3.11."""
    # What ``timestamp`` writes, which is most of what is asked for, is read in a tenth of the time.
    if len(text) == 27 and text[4] + text[7] + text[10] + text[19] + text[26] == "--T.Z" and text.isascii():
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            # Such as a day that no month has, or what only looks like it.
            return _parsed(text)
    return _parsed(text)


def _parsed(text: str) -> datetime | None:
    match = _TIMESTAMP.match(text.strip())
    if match is None:
        return None
    day, hour, minute, second, fraction, _, hours, minutes = match.groups()
    offset = f"{hours}:{minutes or '00'}" if hours else "+00:00"
    try:
        of_day = f"{hour}:{minute or '00'}:{second or '00'}.{(fraction or '')[:6]:0<6}"
        return datetime.fromisoformat(f"{day}T{of_day}{offset}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None

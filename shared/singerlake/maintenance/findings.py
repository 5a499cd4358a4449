"""What maintenance has to say about a lake: one sentence per finding, under a kind that scripts can match."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a person may want to know. ``kind`` is one lower-case word, ``key`` the object it is about (relative
    to the lake root). A finding that is no ``problem`` is a note: nothing has to be done about it."""

    kind: str
    key: str
    message: str
    problem: bool = True

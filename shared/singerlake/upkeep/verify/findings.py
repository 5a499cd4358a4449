"""What maintenance has to say about a lake: one sentence per finding, under a kind that scripts can match."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal[
    "broken",
    "case",
    "catalogue",
    "clash",
    "commit",
    "differs",
    "duplicate",
    "empty",
    "erased",
    "foreign",
    "identity",
    "manifest",
    "misplaced",
    "missing",
    "offsets",
    "repeated",
    "root",
    "times",
    "torn",
    "uncommitted",
    "unlisted",
    "vanished",
    "version",
]
"""``docs/reference/commands.md`` says of each what it means and what to do."""
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a person may want to know. ``key`` is the object it is about, relative to the lake root. A finding
    that is no ``problem`` is a note: nothing has to be done about it."""

    kind: Kind
    key: str
    message: str
    problem: bool = True

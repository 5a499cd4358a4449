"""One row of what is explored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.model.explorer import Model


@dataclass(frozen=True)
class Case:
    """A model under a name; ``promise`` is what a faulty variant breaks, in the words of the counterexample."""

    name: str
    model: Model[Any]
    promise: str = ""

"""Where a simulation's every decision comes from: a seed, or a list of numbers that replays and shrinks."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


class Choices:
    """Decisions as numbers below a bound. 0 is always the dull one: no fault, the same actor goes on, no time passes;
    so that a schedule is shrunk by making its numbers smaller and fewer. ``taken`` is the schedule so far."""

    def __init__(self, draw: Callable[[int], int]) -> None:
        self._draw = draw
        self.taken: list[int] = []

    def below(self, bound: int) -> int:
        """A number in ``range(bound)``."""
        if bound <= 1:
            return 0
        number = self._draw(bound)
        self.taken.append(number)
        return number

    def chance(self, per_mille: int) -> bool:
        """True ``per_mille`` times in a thousand; asks nothing where that is never."""
        return per_mille > 0 and self.below(1000) >= 1000 - per_mille

    def one_of(self, items: Sequence[Item]) -> Item:
        """One of ``items``; the first is the dull one."""
        return items[self.below(len(items))]


def seeded(seed: int) -> Choices:
    """Decisions by a pseudo-random generator."""
    generator = random.Random(seed)
    scale = generator.random
    return Choices(lambda bound: int(scale() * bound))


def scripted(numbers: Sequence[int]) -> Choices:
    """Decisions by a schedule; dull ones once it has ended."""
    rest = iter(numbers)
    return Choices(lambda bound: next(rest, 0) % bound)


def identities(seed: int) -> Callable[[], str]:
    """Identities of the right shape that no two calls share. Apart from the decisions, so that a shorter schedule has
    the same ones, and random, since what begins alike must not be taken for alike."""
    generator = random.Random(~seed)
    digits = "0123456789abcdefghijklmnopqrstuv"

    def fresh() -> str:
        bits = generator.getrandbits(80)
        return "".join(digits[bits >> place & 31] for place in range(0, 80, 5))

    return fresh

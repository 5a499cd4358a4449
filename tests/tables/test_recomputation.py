"""Tables of random declarations and streams equal what plain Python makes of the same messages."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.tables.cases import case
from tests.tables.shrink import shrunk
from tests.tables.tables import check_case

QUICK, MORE, ALL, GROUP = 10, 50, 2010, 20
RARE = (948, 1321, 1386, 1599, 1655)
"""With these seeds each two values that declarations and sizes have among the first 2000 seeds come together."""


def _check(seeds: Iterable[int]) -> None:
    for seed in seeds:
        made = case(seed)
        try:
            check_case(made)
        except Exception as error:
            least, reason = shrunk(made, error)
            raise AssertionError(f"seed {seed}: {reason!r}\n{least}\n{reason}") from reason


def test_tables_equal_a_recomputation() -> None:
    _check(range(QUICK))


@pytest.mark.parametrize(
    "first",
    [
        *(pytest.param(first, marks=pytest.mark.thorough) for first in range(QUICK, MORE, GROUP)),
        *(pytest.param(first, marks=pytest.mark.soak) for first in range(MORE, ALL, GROUP)),
    ],
)
def test_many_more_tables_equal_a_recomputation(first: int) -> None:
    _check(range(first, first + GROUP))


@pytest.mark.thorough
def test_so_do_tables_of_rare_declarations() -> None:
    _check(RARE)

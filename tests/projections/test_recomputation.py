"""Tables of random declarations and streams equal what plain Python makes of the same messages."""

from __future__ import annotations

import pytest

from tests.projections.cases import case
from tests.projections.shrink import shrunk
from tests.projections.tables import check_case

QUICK, ALL, GROUP = 50, 2000, 50


def _check(first: int) -> None:
    for seed in range(first, first + GROUP):
        made = case(seed)
        try:
            check_case(made)
        except Exception as error:
            least, reason = shrunk(made, error)
            raise AssertionError(f"seed {seed}: {reason!r}\n{least}\n{reason}") from reason


@pytest.mark.parametrize("first", range(0, QUICK, GROUP))
def test_tables_equal_a_recomputation(first: int) -> None:
    _check(first)


@pytest.mark.thorough
@pytest.mark.parametrize("first", range(QUICK, ALL, GROUP))
def test_many_more_tables_equal_a_recomputation(first: int) -> None:
    _check(first)

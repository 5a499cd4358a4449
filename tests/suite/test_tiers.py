"""Three commands share the suite out between them, and the quick one leaves no value out that it may not."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

TESTS = """
    import pytest

    both = [pytest.mark.parametrize("store", "abcde"), pytest.mark.parametrize("fault", "xyz")]

    def every(test):
        for mark in both:
            test = mark(test)
        return test

    @every
    @pytest.mark.crossed("store", "fault")
    def test_crossed(store, fault): ...

    @every
    @pytest.mark.sampled(store=3)
    def test_sampled(store, fault): ...

    @every
    def test_first_turn(store, fault): ...

    @every
    def test_second_turn(store, fault): ...

    @every
    @pytest.mark.in_turn("store", "fault")
    def test_turn_of_both(store, fault): ...

    @every
    @pytest.mark.thorough
    @pytest.mark.crossed("store", "fault")
    def test_thorough_crossed(store, fault): ...

    @pytest.mark.thorough
    def test_alone(): ...

    @pytest.mark.soak
    def test_long(): ...

    def test_plain(): ...

    pytestmark = pytest.mark.in_turn("store")
"""
CONFTEST = """
    import pytest
    from tests.suite.tiers import MARKS, mark_tiers

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(items):
        mark_tiers(items)

    def pytest_configure(config):
        for name in ("thorough", "soak", "property", *MARKS):
            config.addinivalue_line("markers", name)
"""


COMMANDS = re.findall(
    r"BIN\)/python -m pytest -m '?([^'$]+?)'? \$", (Path(__file__).parents[2] / "Makefile").read_text()
)
"""What each of the three commands chooses."""


@pytest.fixture
def chosen(pytester: pytest.Pytester) -> dict[str, list[str]]:
    """The cases of ``TESTS`` that each command chooses."""
    pytester.makepyfile(TESTS)
    pytester.makeconftest(CONFTEST)
    found = {}
    for command in (*COMMANDS, ""):
        shown = pytester.runpytest_inprocess("--collect-only", "-q", "-m", command)
        found[command] = [line.partition("::")[2] for line in shown.outlines if "::" in line]
    return found


def cases(test: str, pairs: Iterable[str]) -> set[str]:
    return {f"test_{test}[{store}-{fault}]" for store, fault in pairs}


def test_the_quick_command_has_a_diagonal_a_sample_or_a_turn(chosen: dict[str, list[str]]) -> None:
    assert set(chosen[COMMANDS[0]]) == {
        *cases("crossed", ["ax", "by", "cz", "dx", "ey"]),
        *cases("sampled", map("".join, itertools.product("ace", "xyz"))),
        *cases("first_turn", ["cx", "cy", "cz"]),
        *cases("second_turn", ["dx", "dy", "dz"]),
        *cases("turn_of_both", ["ey"]),
        "test_plain",
    }


def test_what_one_command_leaves_out_another_one_runs(chosen: dict[str, list[str]]) -> None:
    quick, thorough, soak = (chosen[command] for command in COMMANDS)
    assert set(thorough) == {
        "test_alone",
        *cases("thorough_crossed", ["ax", "by", "cz", "dx", "ey"]),
        *cases("crossed", ["ay", "bz", "cx", "dy", "ez"]),
        *cases("sampled", map("".join, itertools.product("bd", "xyz"))),
        *cases("first_turn", ["dx", "dy", "dz"]),
        *cases("second_turn", ["ex", "ey", "ez"]),
        *cases("turn_of_both", ["ax", "by", "cz", "dx"]),
    }
    left = {
        each
        for test in ("crossed", "first_turn", "second_turn", "thorough_crossed", "turn_of_both")
        for each in cases(test, every())
    }
    assert set(soak) == {"test_long", *left - {*quick, *thorough}}
    assert sorted([*quick, *thorough, *soak]) == sorted(chosen[""])
    assert len(chosen[""]) == 6 * 15 + 3


def every() -> Iterable[str]:
    return map("".join, itertools.product("abcde", "xyz"))

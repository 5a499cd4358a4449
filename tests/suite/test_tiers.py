"""Two commands share the suite out between them, and the quick one leaves no value out that it may not."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

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

    @pytest.mark.thorough
    def test_alone(): ...

    def test_plain(): ...

    pytestmark = pytest.mark.in_turn("store")
"""
CONFTEST = """
    import pytest
    from tests.suite.tiers import MARKS, mark_thorough

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(items):
        mark_thorough(items)

    def pytest_configure(config):
        for name in ("thorough", *MARKS):
            config.addinivalue_line("markers", name)
"""


@pytest.fixture
def chosen(pytester: pytest.Pytester) -> dict[str, list[str]]:
    """The cases of ``TESTS`` that each command chooses."""
    pytester.makepyfile(TESTS)
    pytester.makeconftest(CONFTEST)
    found = {}
    for command in ("not thorough", "thorough", ""):
        shown = pytester.runpytest_inprocess("--collect-only", "-q", "-m", command)
        found[command] = [line.partition("::")[2] for line in shown.outlines if "::" in line]
    return found


def cases(test: str, pairs: Iterable[str]) -> set[str]:
    return {f"test_{test}[{store}-{fault}]" for store, fault in pairs}


def test_the_quick_command_has_a_diagonal_a_sample_or_a_turn(chosen: dict[str, list[str]]) -> None:
    assert set(chosen["not thorough"]) == {
        *cases("crossed", ["ax", "by", "cz", "dx", "ey"]),
        *cases("sampled", map("".join, itertools.product("ace", "xyz"))),
        *cases("first_turn", ["cx", "cy", "cz"]),
        *cases("second_turn", ["dx", "dy", "dz"]),
        "test_plain",
    }


def test_what_one_command_leaves_out_the_other_one_runs(chosen: dict[str, list[str]]) -> None:
    assert "test_alone" in chosen["thorough"]
    assert sorted(chosen["not thorough"] + chosen["thorough"]) == sorted(chosen[""])
    assert len(chosen[""]) == 4 * 15 + 2

"""No test begins after the time that a run has, all others do, and the run says how many were left out."""

from __future__ import annotations

import time

import pytest

TESTS = """
    import pytest

    @pytest.mark.parametrize("number", range(3))
    def test_one(number): ...
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makepyfile(test_a=TESTS, test_b=TESTS, test_c=TESTS)
    pytester.makeconftest('pytest_plugins = ["tests.suite.deadline"]')
    return pytester


def shown(run: pytest.Pytester, *options: str) -> list[str]:
    lines = run.runpytest_inprocess("--collect-only", "-q", *options).outlines
    return [line for line in lines if "::" in line]


def test_what_is_not_begun_in_time_is_skipped_and_said_to_be(run: pytest.Pytester) -> None:
    result = run.runpytest_inprocess("-rs", "--begin-within", "0")
    result.assert_outcomes(skipped=9)
    result.stdout.fnmatch_lines(["SKIPPED [[]9[]] *: not begun within 0 s"])


@pytest.mark.parametrize("options", [(), ("--begin-within", "600")])
def test_what_is_begun_in_time_runs(run: pytest.Pytester, options: tuple[str, ...]) -> None:
    run.runpytest_inprocess(*options).assert_outcomes(passed=9)


def test_a_test_under_way_is_not_ended(run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 1.0, 9.0, *[11.0] * 20])
    monkeypatch.setattr(time, "monotonic", lambda: next(now))
    run.runpytest_inprocess("--begin-within", "10", "-p", "no:timeout").assert_outcomes(passed=2, skipped=7)


def test_runs_begin_at_different_modules_and_lose_none(run: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = shown(run)
    orders = set()
    for number in range(8):
        monkeypatch.setenv("PYTEST_XDIST_TESTRUNUID", str(number))
        turned = shown(run, "--begin-within", "600")
        assert sorted(turned) == sorted(plain)
        orders.add(tuple(dict.fromkeys(line.partition("::")[0] for line in turned)))
        assert shown(run) == plain
    assert orders == {
        ("test_a.py", "test_b.py", "test_c.py"),
        ("test_b.py", "test_c.py", "test_a.py"),
        ("test_c.py", "test_a.py", "test_b.py"),
    }

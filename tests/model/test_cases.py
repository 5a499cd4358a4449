"""Every promise is kept in every state within the bounds, and each rule is needed, as the page on the model says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from singerlake.stores.merge.settings import MergeSettings
from tests.model.case import Case
from tests.model.cases import FAULTY, KEPT, explored, row
from tests.model.settle.times import SettleTimes

FEW, MANY = 12_000, 20_000
"""States that the explorer sees within half a second, and within a few seconds."""
LONG = {
    "attached: forgotten as soon as it is deleted",
    "attached: what should have been deleted is deleted however late it is",
    "attached: deleted without another look at the state",
    "attached: a writer uses the name that is being deleted",
    "segments: noted with the time from before it was listed",
    "segments: the states read before the segments are listed",
    "segments: deleted a grace time after it was noted",
    "segments: noted as soon as it is written",
    "segments: a writer names a segment of an older state that it remembers",
    "runs: only what is new is cut, and not the runs behind it",
}
"""A broken promise that takes the explorer more than half a second to find."""
DOCUMENT = Path(__file__).parents[2] / "docs/explanation/model.md"


def lines() -> list[str]:
    return [
        line
        for line in DOCUMENT.read_text().splitlines()
        if line.startswith(("| lockfile:", "| log:", "| merge:", "| runs:", "| attached:", "| segments:"))
    ]


def states(case: Case) -> int:
    """How many the document says that there are."""
    found = next((line for line in lines() if line.startswith(f"| {case.name} |")), "| | 0 |")
    return int(found.split("|")[2].replace(",", ""))


def cases(all_of_them: tuple[Case, ...]) -> list[Any]:
    """With those marked that take long."""

    def marks(case: Case) -> list[pytest.MarkDecorator]:
        if states(case) > MANY:
            return [pytest.mark.soak]
        if case.name in LONG:
            return [pytest.mark.soak]
        return [pytest.mark.thorough] if states(case) > FEW else []

    return [pytest.param(case, id=case.name, marks=marks(case)) for case in all_of_them]


@pytest.mark.parametrize("case", cases(KEPT))
def test_every_promise_is_kept_in_every_state(case: Case) -> None:
    result = explored(case)
    assert result.found is None, f"\n{result.found}"
    assert row(case) in lines(), f"the document should say: {row(case)}"


@pytest.mark.parametrize("case", cases(FAULTY))
def test_without_a_rule_a_promise_is_broken(case: Case) -> None:
    found = explored(case).found
    assert found is not None
    assert re.search(case.promise, found.promise), f"\n{found}"
    assert row(case) in lines(), f"the document should say: {row(case)}"


def test_the_document_shows_nothing_else() -> None:
    names = [line.split("|")[1].strip() for line in lines()]
    assert names == [case.name for case in (*KEPT, *FAULTY)]


def test_the_lag_that_is_explored_is_the_one_that_the_settings_ask_for() -> None:
    alone = [case.model for case in KEPT if isinstance(case.model, SettleTimes) and not case.model.if_absent]
    assert [model.lag for model in alone if model.lag == model.least_lag] == [7, 7]
    settings = MergeSettings(stale=2, longest=2)
    assert settings.least_lag == SettleTimes(lag=0, stale=2, longest=2, resolution=1).least_lag == 7

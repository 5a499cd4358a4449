"""Checks that change count from next messages on: what is there is verified by what it was made by."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from singerlake.errors import SingerlakeError
from singerlake.tables.maintain.verify import verify_rows
from singerlake.tables.state.commit import load
from singerlake.tables.state.model import TableState
from tests.tables.cases import Batch
from tests.tables.recompute import Declared, Test
from tests.tables.tables import TABLE, capture, declaration_of, memory_lake, runner_of

SCHEMA = {"type": "object", "properties": {"id": {"type": ["null", "integer"]}, "v": {"type": "integer"}}}
LESS = (("v", (Test("<", (3,)),), "drop"),)
MORE = (("v", (Test(">", (0,)),), "fail"),)
STEPS: dict[str, list[dict[str, Any]]] = {
    "drop comes": [{}, {"checks": LESS}],
    "drop goes": [{"checks": LESS}, {}],
    "fail comes": [{"null_keys": "drop"}, {"null_keys": "drop", "checks": MORE}],
    "null keys are refused": [{"null_keys": "drop"}, {"null_keys": "fail"}],
    "there and back": [{"null_keys": "drop"}, {"null_keys": "drop", "checks": LESS}, {"null_keys": "drop"}],
}


def lines(number: int) -> tuple[dict[str, Any], ...]:
    """Of the first capture some fail what is declared later."""
    values = range(1, 6) if number else range(6)
    made = [{"id": 10 * number + v if number or v else None, "v": v} for v in values]
    return tuple({"type": "RECORD", "stream": "s", "record": each} for each in made)


def state_of(lake: Any) -> TableState:
    found = load(lake.storage, TABLE)
    assert found is not None
    return found.state


@pytest.mark.parametrize("keep", ["append", "latest", "history"])
@pytest.mark.parametrize("what", STEPS)
def test_what_is_there_is_verified_by_what_made_it(what: str, keep: str) -> None:
    lake = memory_lake()
    runner = runner_of(lake)
    for number, declared in enumerate(STEPS[what]):
        capture(lake, Batch(SCHEMA, ("id",), lines(number)), {"file": 3, "member": 2})
        given = {"null_keys": "drop", **declared} if "null_keys" not in declared and not number else declared
        runner.run(declaration_of(Declared(keep, **given)))
        assert list(verify_rows(runner, state_of(lake))) == [], f"after step {number}"
    state = state_of(lake)
    assert [each.offset for each in state.earlier] == [6, 11][: len(STEPS[what]) - 1]
    # Rows that are wrong are found all the same.
    assert list(verify_rows(runner, structs.replace(state, files=state.files[:0]))) != []
    try:
        runner.run(declaration_of(Declared(keep, **STEPS[what][-1])), full_refresh=True)
    except SingerlakeError:
        return
    assert state_of(lake).earlier == ()

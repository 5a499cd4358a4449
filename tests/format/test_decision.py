"""The decision about an atomic run, as it is stored, and the names of commits."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import CorruptObjectError, UnsupportedFormatError
from singerlake.format import layout
from singerlake.format.decision import (
    Brought,
    Decision,
    aborted,
    commit_name,
    decision_from_json,
    decision_to_json,
)
from tests.fakes import START

ID = "0123456789abcdef"
NAME = f"20260101T000000.000000Z-{ID}"
KEY = layout.commit_key("t", NAME)
DECISION = Decision(
    id=NAME,
    at="2026-01-01T00:00:00.000000Z",
    run="r",
    writer="w",
    committed=True,
    streams={"s": Brought(lineage="l", offset=3, end=9)},
)
TIMES = st.datetimes(datetime(1970, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC))


def test_a_decision_is_stored_as_the_format_says() -> None:
    assert json.loads(decision_to_json(DECISION)) == {
        "format": 1,
        "id": NAME,
        "at": "2026-01-01T00:00:00.000000Z",
        "run": "r",
        "writer": "w",
        "committed": True,
        "streams": {"s": {"lineage": "l", "offset": 3, "end": 9}},
    }
    assert decision_from_json(decision_to_json(DECISION), key=KEY) == DECISION


def test_a_decision_against_a_run_names_no_stream() -> None:
    against = aborted(NAME, at=START, writer="w", run=None)
    assert (against.committed, against.streams, against.run) == (False, {}, None)
    assert decision_from_json(decision_to_json(against), key=KEY) == against


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"format": 2}, UnsupportedFormatError),
        ({"format": True}, CorruptObjectError),
        ({"id": f"20260101T000000.000001Z-{ID}"}, CorruptObjectError),
        ({"committed": None}, CorruptObjectError),
        ({"committed": 1}, CorruptObjectError),
        ({"streams": []}, CorruptObjectError),
        ({"streams": {"s": {"lineage": "l", "offset": 0}}}, CorruptObjectError),
        ({"streams": {"s": {"lineage": None, "offset": 0, "end": 1}}}, CorruptObjectError),
        ({"at": None}, CorruptObjectError),
        ({"at": "yesterday"}, CorruptObjectError),
        ({"streams": {"s": {"lineage": "l", "offset": -1, "end": 1}}}, CorruptObjectError),
        ({"streams": {"s": {"lineage": "l", "offset": 3, "end": 3}}}, CorruptObjectError),
        ({"streams": {"s": {"lineage": "l", "offset": 5, "end": 3}}}, CorruptObjectError),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_another_body_is_an_error_that_names_the_key(change: dict[str, Any], error: type[Exception]) -> None:
    body = json.dumps({**json.loads(decision_to_json(DECISION)), **change}).encode()
    with pytest.raises(error, match=NAME):
        decision_from_json(body, key=KEY)


@pytest.mark.parametrize("body", [b"", b"[]", b"null", b'{"format":1}', decision_to_json(DECISION)[:-5]])
def test_a_body_that_is_no_decision_is_an_error_that_has_nobody_delete_it(body: bytes) -> None:
    with pytest.raises(CorruptObjectError, match=NAME) as raised:
        decision_from_json(body, key=KEY)
    assert raised.value.hint == "restore it from a backup"
    assert "a decision about an atomic run" in raised.value.message


def test_fields_of_later_versions_are_passed_over() -> None:
    body = json.dumps({**json.loads(decision_to_json(DECISION)), "more": 1}).encode()
    assert decision_from_json(body, key=KEY) == DECISION


@given(TIMES, st.lists(TIMES, max_size=4))
def test_a_name_is_greater_than_all_before_it_and_tells_its_time(now: datetime, before: list[datetime]) -> None:
    names = [layout.commit_name(moment, "v" * 16) for moment in before]
    name = commit_name(now, "0" * 16, names)
    assert all(name > other for other in names)
    time = layout.commit_time(name)
    assert time == max([now, *(moment + timedelta(microseconds=1) for moment in before)])
    assert layout.commit_name_in(f"{name}.json") == name
    assert layout.shown_commit_in(layout.shown_commit_key("t", name).rpartition("/")[2]) == name


@pytest.mark.parametrize(
    "object_name",
    [NAME, f"{NAME}.json.json", f"x{NAME}.json", f"{NAME[:-1]}.json", f"{NAME[:-1]}w.json", f"{NAME}.shown", ".json"],
)
def test_other_objects_are_no_decisions(object_name: str) -> None:
    assert layout.commit_name_in(object_name) is None


@pytest.mark.parametrize("name", ["", ID, f"2026-{ID}", f"{NAME}\n"])
def test_what_is_no_name_has_no_time(name: str) -> None:
    with pytest.raises(ValueError, match="commit"):
        layout.commit_time(name)

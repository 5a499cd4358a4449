"""STATE on its way out: whole, exact, once, and cheap enough for thousands of streams."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from decimal import Decimal

import pytest

from singerlake.lake import Lake
from tap_singerlake.output import LineWriter, StateLines
from tests.lakes import build_stream, record_line
from tests.tap.runs import V1, make_tap


class Walked(dict):
    """A state that may be written and neither copied nor taken apart in Python."""

    def __deepcopy__(self, memo):
        raise AssertionError("a copy of all bookmarks")


def written(*states) -> list[bytes]:
    buffer = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(buffer, encoding="utf-8")):
        lines = StateLines(LineWriter())
        for state in states:
            lines.write_state(state)
        return buffer.getvalue().splitlines(keepends=True)


def test_the_same_state_is_written_once_and_a_changed_one_again():
    state = {"bookmarks": {"a": {"offset": 1}}}
    first = written(state, state)
    assert first == [b'{"type":"STATE","value":{"bookmarks":{"a":{"offset":1}}}}\n']
    assert len(written(state, {"bookmarks": {"a": {"offset": 2}}}, state)) == 3


@pytest.mark.parametrize(
    "value", ["\ud800", "é\u2028", 10**30, -(10**30), Decimal("0.1000000000000000055511151231257827"), None, True, 1.5]
)
def test_whatever_a_state_holds_comes_back_exactly(value):
    (line,) = written({"bookmarks": {"s": {"x": value, "\ud800": 1} if value == "\ud800" else {"x": value}}})
    found = json.loads(line, parse_float=Decimal)["value"]["bookmarks"]["s"]["x"]
    assert found == value


def test_a_state_is_neither_copied_nor_walked():
    assert len(written(Walked(bookmarks={}), Walked(bookmarks={"a": {}}))) == 2


def test_the_tap_writes_its_states_so(tmp_path):
    build_stream(Lake.open(str(tmp_path)), "tap-a", "s", V1, [record_line("s", {"id": 1})])
    assert isinstance(make_tap(tmp_path).state_writer, StateLines)

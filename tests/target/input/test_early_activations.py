"""ACTIVATE_VERSION before its stream's SCHEMA: held, kept right behind it, and no STATE goes past it meanwhile."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import SingerlakeError
from singerlake.lake import Lake
from target_singerlake.errors import MessageBeforeSchemaError, RecordBeforeSchemaError
from target_singerlake.input.messages import HELD_BYTES, EarlyActivations, Message
from target_singerlake.state import HeldStates
from target_singerlake.target import TargetSingerlake
from tests.target.support import activate, config, ingest, kept, record, records, schema, state, text

ODD = b'{"type": "ACTIVATE_VERSION", "stream": "users", "version": NaN}'
RENAMED = {"users": {"__alias__": "people"}, "copies": {"__source__": "users"}}


def test_it_is_kept_first_and_in_order(tmp_path: Path) -> None:
    lines = [activate(1), ODD, activate(7, "orders"), state(0), schema(), *records(1), activate(3), schema("orders")]
    assert ingest(tmp_path, [*lines, state(1)]) == ["1"]
    assert kept(tmp_path) == [activate(1), ODD, record(1), activate(3)]
    assert kept(tmp_path, "orders") == [activate(7, "orders")]


def test_it_is_kept_where_it_stands_alone_in_its_stream(tmp_path: Path) -> None:
    assert ingest(tmp_path, [activate(1), schema(), state(1)]) == ["1"]
    assert kept(tmp_path) == [activate(1)]


def test_it_is_mapped_like_the_stream(tmp_path: Path) -> None:
    ingest(
        tmp_path,
        [activate(1), activate(2, "gone"), schema("gone"), schema(), *records(1)],
        stream_maps=RENAMED | {"gone": None},
    )
    for stream in ("people", "copies"):
        assert [json.loads(line).get("version") for line in kept(tmp_path, stream)] == [1, None]
        assert json.loads(kept(tmp_path, stream)[0])["stream"] == stream
    assert Lake.open(str(tmp_path)).streams("tap-test") == ["copies", "people"]


@pytest.mark.parametrize("maps", [{}, {"stream_maps": RENAMED}])
def test_where_the_schema_never_comes_the_run_fails_and_no_state_goes_past_it(
    tmp_path: Path, maps: dict[str, Any]
) -> None:
    lines = [schema("a"), record(1, "a"), state(1), activate(1), record(2, "a"), state(2)]
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with redirect_stdout(out), pytest.raises(MessageBeforeSchemaError, match="SCHEMA never did") as raised:
        TargetSingerlake(config=config(tmp_path, max_file_records=1, **maps)).listen(io.BytesIO(text(lines)))
    assert raised.value.context == {"line": 4, "stream": "users", "streams": 1}
    out.seek(0)
    assert out.read().splitlines() == ["1"]
    assert kept(tmp_path, "a") == [record(1, "a"), record(2, "a")]


@pytest.mark.parametrize("maps", [{}, {"stream_maps": RENAMED}])
def test_a_record_before_its_schema_stays_an_error(tmp_path: Path, maps: dict[str, Any]) -> None:
    with pytest.raises(RecordBeforeSchemaError):
        ingest(tmp_path, [activate(1), *records(1), schema()], **maps)


def test_no_more_is_held_than_a_bounded_amount(tmp_path: Path) -> None:
    lines = [activate(number, f"s{number % 50}") for number in range(HELD_BYTES // 200)]
    with pytest.raises(MessageBeforeSchemaError, match="more than 1,048,576 bytes") as raised:
        ingest(tmp_path, lines)
    assert isinstance(raised.value, SingerlakeError)


def test_state_waits_until_the_files_that_got_it_are_committed() -> None:
    states = HeldStates()
    early = EarlyActivations(states)
    early.hold(Message("ACTIVATE_VERSION", "s", b"{}\n", 1))
    states.arrived(b"1")
    early.hold(Message("ACTIVATE_VERSION", "s", b"{ }\n", 3))
    assert states.safe() is None
    given = early.release("s", lambda line, number: [Message("ACTIVATE_VERSION", name, line, number) for name in "xy"])
    epochs = []
    for message in given:
        assert isinstance(message, Message)
        assert message.held is not None
        epochs += [states.opened(), states.opened_with(message.held)]
    assert len(epochs) == 8
    states.arrived(b"2")
    for epoch in epochs[:-1]:
        states.committed(epoch)
        assert states.safe() is None
    states.committed(epochs[-1])
    assert states.safe() == b"2"
    early.require_none()


def test_what_was_passed_on_makes_room_for_more() -> None:
    early = EarlyActivations(HeldStates())
    for number in range(3):
        early.hold(Message("ACTIVATE_VERSION", "s", b" " * (HELD_BYTES - 1000), number))
        assert len(list(early.release("s", lambda line, number: [Message("ACTIVATE_VERSION", "s", line, number)]))) == 1

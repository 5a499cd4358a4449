"""Which STATE may be emitted, held against the plain definition."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from target_singerlake.state import HeldStates


@given(st.lists(st.one_of(st.just("state"), st.just("open"), st.integers(0, 5)), max_size=40))
def test_a_state_is_given_exactly_when_all_files_opened_before_it_are_committed(steps: list[str | int]) -> None:
    held = HeldStates()
    opened: list[tuple[int, int]] = []  # (states that came before, token)
    came = 0
    emitted = -1
    for step in steps:
        if step == "open":
            opened.append((came, held.opened()))
        elif step == "state":
            held.arrived(b"%d" % came)
            came += 1
        elif isinstance(step, int) and step < len(opened):
            held.committed(opened.pop(step)[1])
        safe = min((before for before, _ in opened), default=came) - 1
        value = held.safe()
        if safe > emitted:
            assert value == b"%d" % safe
            emitted = safe
        else:
            assert value is None


@given(st.lists(st.one_of(st.just("state"), st.just("open"), st.integers(0, 5)), max_size=60))
def test_no_more_states_are_held_than_files_are_open_and_one(steps: list[str | int]) -> None:
    held = HeldStates()
    tokens: list[int] = []
    for step in steps:
        if step == "open":
            tokens.append(held.opened())
        elif step == "state":
            held.arrived(b"{}")
        elif isinstance(step, int) and step < len(tokens):
            held.committed(tokens.pop(step))
        held.safe()
        assert len(held._held) <= len(tokens) + 1


def test_a_state_behind_many_is_the_only_one_given() -> None:
    held = HeldStates()
    token = held.opened()
    for number in range(1000):
        held.arrived(b"%d" % number)
    assert held.safe() is None
    held.committed(token)
    assert held.safe() == b"999"
    assert held.safe() is None

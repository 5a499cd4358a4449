"""The calls that settlers and the trimmer make, one after the other."""

from __future__ import annotations

from collections.abc import Callable

from tests.model.settle.state import (
    ABSENT,
    COUNTS,
    GONE,
    Rules,
    Settler,
    SettleRecord,
    State,
    Steps,
    Trimmer,
    read,
    said,
    with_entry,
    with_settler,
)


def _read(rules: Rules, state: State, place: int, settler: Settler) -> Steps:
    log = read(state.base, state.records) or ()
    if settler.left == 0:
        yield "reads the log", with_settler(state, place, Settler("done", 0))
        return
    moved = settler._replace(at="list", state=log[-1].id if log else "", number=len(log))
    yield f"reads the log: {said(log)}", with_settler(state, place, moved)


def _list(rules: Rules, state: State, place: int, settler: Settler) -> Steps:
    found = tuple(entry for entry, status in enumerate(state.entries) if status == COUNTS)
    moved = settler._replace(at="look", found=found, looks=settler.number, expects=settler.state)
    if not rules.entries_read_last:
        moved = moved._replace(held=found)
    yield f"lists entries {list(found)}", with_settler(state, place, _looked(moved))


def _look(rules: Rules, state: State, place: int, settler: Settler) -> Steps:
    record = state.records[settler.looks - 1]
    if record is None or record.id != settler.expects:
        moved = settler._replace(looks=0, expects="")
        seen = "gone" if record is None else "another"
    else:
        found = tuple(entry for entry in settler.found if entry not in record.entries)
        moved = settler._replace(found=found, looks=settler.looks - 1, expects=record.after)
        seen = str(list(record.entries))
    yield f"looks into record {settler.looks}: {seen}", with_settler(state, place, _looked(moved))


def _looked(settler: Settler) -> Settler:
    """On to the next older record; without anything to settle the round is over."""
    if not settler.found:
        return Settler("read", settler.left - 1)
    return settler if settler.looks else settler._replace(at="fetch")


def _fetch(rules: Rules, state: State, place: int, settler: Settler) -> Steps:
    for count in range(1, len(settler.found) + 1):
        due = settler.found[:count]
        held = due if not rules.entries_read_last else tuple(entry for entry in due if state.entries[entry] != GONE)
        moved = (
            settler._replace(at="write", held=held, found=(), expects="") if held else Settler("read", settler.left - 1)
        )
        yield f"reads entries {list(held)}", with_settler(state, place, moved)


def _write(rules: Rules, state: State, place: int, settler: Settler) -> Steps:
    number = settler.number
    record = SettleRecord(f"{place}.{number + 1}.{settler.left}", settler.state, settler.held)
    after = with_settler(state, place, Settler("read", settler.left - 1))
    label = f"writes record {number + 1}: {list(settler.held)}"
    if number >= len(state.records) or (state.records[number] is not None and rules.if_absent):
        yield f"{label}: refused", _collected(rules, after, settler)
    else:
        records = (*state.records[:number], record, *state.records[number + 1 :])
        yield label, _collected(rules, after._replace(records=records), settler)


def _collected(rules: Rules, state: State, settler: Settler) -> State:
    """The faulty variant without ``read_back`` deletes the entries of a record as soon as it sent it."""
    if not rules.read_back:
        for entry in settler.held:
            state = with_entry(state, entry, GONE)
    return state


def _raise(rules: Rules, state: State, trimmer: Trimmer) -> Steps:
    log = read(state.base, state.records) or ()
    floor = max(len(log) - 1, state.floor)
    raised = state._replace(base=log, floor=floor, trimmer=trimmer._replace(at="names"))
    yield f"the trimmer keeps a snapshot of {said(log)}, and raises the floor to {floor}", raised


def _names(rules: Rules, state: State, trimmer: Trimmer) -> Steps:
    """Those of the records that led to the one above the floor, newest first, as far as they are there."""
    names: set[int] = set()
    above = state.records[state.floor]
    expected = above.after if above else ""
    for record in reversed(state.records[: state.floor]):
        if rules.led_here and (record is None or record.id != expected):
            break
        if record is not None:
            names.update(record.entries)
            expected = record.after
    moved = trimmer._replace(at="entries" if rules.entries_first else "numbers", names=tuple(sorted(names)))
    yield "the trimmer reads what the records up to the floor hold", _skip(rules, state, moved)


def _entries(rules: Rules, state: State, trimmer: Trimmer) -> Steps:
    entry, *rest = trimmer.names
    after = with_entry(state, entry, GONE) if state.entries[entry] != ABSENT else state
    yield f"the trimmer deletes entry {entry}", _skip(rules, after, trimmer._replace(names=tuple(rest)))


def _numbers(rules: Rules, state: State, trimmer: Trimmer) -> Steps:
    numbers = tuple(number for number, record in enumerate(state.records[: state.floor]) if record is not None)
    moved = trimmer._replace(at="records", numbers=numbers)
    yield "the trimmer lists the records up to the floor", _skip(rules, state, moved)


def _records(rules: Rules, state: State, trimmer: Trimmer) -> Steps:
    number, *rest = trimmer.numbers
    records = (*state.records[:number], None, *state.records[number + 1 :])
    moved = trimmer._replace(numbers=tuple(rest))
    yield f"the trimmer deletes record {number + 1}", _skip(rules, state._replace(records=records), moved)


def _skip(rules: Rules, state: State, trimmer: Trimmer) -> State:
    """On to the next part of a removal where there is nothing left of one."""
    following = (
        {"entries": "numbers", "records": "end"} if rules.entries_first else {"records": "entries", "entries": "end"}
    )
    while (trimmer.at == "entries" and not trimmer.names) or (trimmer.at == "records" and not trimmer.numbers):
        trimmer = trimmer._replace(at=following[trimmer.at])
    if trimmer.at == "end":
        trimmer = Trimmer("raise" if trimmer.left > 1 else "done", trimmer.left - 1)
    return state._replace(trimmer=trimmer)


SETTLING: dict[str, Callable[[Rules, State, int, Settler], Steps]] = {
    "read": _read,
    "list": _list,
    "look": _look,
    "fetch": _fetch,
    "write": _write,
}
"""What comes next for a settler, by the name of its next call."""

TRIMMING: dict[str, Callable[[Rules, State, Trimmer], Steps]] = {
    "raise": _raise,
    "names": _names,
    "entries": _entries,
    "numbers": _numbers,
    "records": _records,
}
"""What comes next for the trimmer."""

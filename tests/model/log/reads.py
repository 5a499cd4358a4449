"""Reading the numbered log: a load (the base, and the tail by one listing), or catching up record by record; the floor
comes last."""

from __future__ import annotations

from tests.model.log.state import (
    STOPPED,
    Actor,
    Call,
    Record,
    Rules,
    State,
    Steps,
    said,
    said_floor,
    snapshot_of,
    with_actor,
)


def _load(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    yield from _base(rules, state, place, actor._replace(since=len(state.shown)))


def _base(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    moved = actor._replace(at="load's floor", reading=state.manifest)
    yield f"reads manifest.json: {said(state.manifest)}", with_actor(state, place, moved)


def _base_floor(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    floor = state.floor
    if floor is not None and len(actor.reading) - 1 < floor[0]:
        moved = actor._replace(at="snapshot named", floor=floor, reading=())
    else:
        moved = actor._replace(at="list", first=len(actor.reading) - 1)
    yield f"reads the floor: {said_floor(state)}", with_actor(state, place, moved)


def _base_snapshot(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    assert actor.floor is not None
    number = actor.floor[1]
    found = snapshot_of(state.snapshots, number)
    if found:
        moved = actor._replace(at="list", first=number, reading=found, floor=None)
    else:
        moved = _stopped(rules, actor, "the snapshot that the floor names is gone")
        if rules.floor_before_doubt:
            moved = actor._replace(at="floor again")
    yield f"reads snapshot {number}: {said(found)}", with_actor(state, place, moved)


def _floor_again(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    if state.floor == actor.floor:
        moved = _stopped(rules, actor, "the snapshot that the floor names is gone")
    else:
        moved = actor._replace(at="load again", floor=None)
    yield f"reads the floor: {said_floor(state)}", with_actor(state, place, moved)


def _list(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    numbers = tuple(number for number in range(actor.first + 1, len(state.records)) if state.records[number])
    moved = actor._replace(at="get" if numbers else "floor", listed=numbers)
    yield f"lists records {list(numbers)}", with_actor(state, place, moved)


def _get(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    number, *rest = actor.listed
    record = state.records[number]
    moved = actor._replace(listed=tuple(rest), at="get" if rest else "floor")
    if record is not None:
        moved = _followed(rules, moved, number, record)
    yield f"reads record {number}: {record.id if record else 'none'}", with_actor(state, place, moved)


def _catch_up(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    begun = actor._replace(at="next", reading=actor.held, first=len(actor.held) - 1, since=len(state.shown))
    yield from _next(rules, state, place, begun)


def _next(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    number = len(actor.reading)
    record = state.records[number] if number < len(state.records) else None
    moved = actor._replace(at="floor") if record is None else _followed(rules, actor, number, record)
    yield f"reads record {number}: {record.id if record else 'none'}", with_actor(state, place, moved)


def _followed(rules: Rules, actor: Actor, number: int, record: Record) -> Actor:
    before = actor.reading[-1] if actor.reading else None
    if actor.reading and number != len(actor.reading):
        return actor._replace(at="floor", listed=(), doubt="there is a gap in the log")
    if rules.continues and record.after != before:
        doubt = f"transaction {number} does not continue the log before it"
        if rules.floor_before_doubt:
            return actor._replace(at="floor", listed=(), doubt=doubt)
        return _stopped(rules, actor, doubt)
    return actor._replace(reading=(*actor.reading, record.id))


def _read_floor(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    label = f"reads the floor: {said_floor(state)}"
    if rules.floor_after_tail and state.floor is not None and state.floor[0] > actor.first:
        again = actor._replace(at="load again", reading=(), first=-1, doubt="")
        yield label, with_actor(state, place, again)
        return
    if actor.doubt:
        yield label, with_actor(state, place, _stopped(rules, actor, actor.doubt))
        return
    yield label, finished(rules, state, place, actor)


def finished(rules: Rules, state: State, place: int, actor: Actor) -> State:
    """A read has its result, which is held against what was shown before it began, and shown in its turn."""
    result = actor.reading
    after = actor._replace(held=result, reading=(), first=-1, since=0)
    if rules.replaced:
        mixed = len({id[0] == "n" for id in result}) > 1
        shown = state.shown
        if mixed:
            after = after._replace(at=f"!{said(result)} is of two logs")
    else:
        common = min(len(result), len(state.shown))
        shown = max(result, state.shown, key=len)
        if result[:common] != state.shown[:common]:
            after = after._replace(at=f"!sees {said(result)} where {said(state.shown)} was shown")
        elif len(result) < actor.since:
            after = after._replace(at=f"!sees {said(result)} after {said(state.shown[: actor.since])} was shown")
    if not after.at.startswith("!"):
        after = rules.go_on(place, after)
    return with_actor(state._replace(shown=shown), place, after)


def _stopped(rules: Rules, actor: Actor, why: str) -> Actor:
    """An error ends whoever meets it. It breaks a promise unless somebody put another log there."""
    return STOPPED if rules.replaced else Actor(f"!{why}", "", 0)


CALLS: dict[str, Call] = {
    "load": _load,
    "load again": _base,
    "load's floor": _base_floor,
    "snapshot named": _base_snapshot,
    "floor again": _floor_again,
    "list": _list,
    "get": _get,
    "catch up": _catch_up,
    "next": _next,
    "floor": _read_floor,
}
"""What comes next, by the name of the call."""

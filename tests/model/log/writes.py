"""Writing to the numbered log: the birth, and the commit loop with its append and the look at the floor after it."""

from __future__ import annotations

from tests.model.log.reads import finished
from tests.model.log.state import DONE, STOPPED, Actor, Call, Record, Rules, State, Steps, put, said_floor, with_actor


def opened(rules: Rules, place: int, actor: Actor) -> Actor:
    """After the first load."""
    return commit(rules, place, actor) if actor.held else actor._replace(at="birth")


def born(rules: Rules, place: int, actor: Actor) -> Actor:
    """After the load that follows the birth: the first state is published."""
    if not actor.held:
        return actor._replace(at="!a stream just born has no state")
    return actor._replace(at="published", then="birth")


def commit(rules: Rules, place: int, actor: Actor) -> Actor:
    """The commit loop's own look: is the transaction there already?"""
    left = actor.left
    while left and _own(rules, place, left) in actor.held:
        left -= 1
    if left:
        return actor._replace(at="append", then="commit", left=left)
    if rules.publishes:
        return Actor("published", "end", 0, held=actor.held)
    return DONE


def _own(rules: Rules, place: int, left: int) -> str:
    return f"{rules.name(place)}{rules.commits - left + 1}"


def _birth(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    record = Record(f"{rules.name(place)}0", None)
    answered = actor._replace(at="load", then="birth")
    yield from _append_to(state, place, 0, record, answered, answered, STOPPED, "gives birth:")


def _append(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    number = len(actor.held)
    record = Record(_own(rules, place, actor.left), actor.held[-1])
    refused = actor._replace(at="catch up")
    done = actor._replace(at="append's floor")
    if rules.floor_after_append:
        yield from _append_to(state, place, number, record, done, refused, refused, "appends")
        return
    for label, after in _append_to(state, place, number, record, done, refused, refused, "appends"):
        yield label, _acknowledged(rules, after, place, done) if after.actors[place] == done else after


def _append_to(
    state: State, place: int, number: int, record: Record, done: Actor, refused: Actor, unknown: Actor, verb: str
) -> Steps:
    label = f"{verb} {number} {record.id}"
    free = state.records[number] is None
    kept = state._replace(records=put(state.records, number, record)) if free else state
    if free:
        yield label, with_actor(kept, place, done)
    else:
        yield f"{label}: refused", with_actor(state, place, refused)
    if state.lost:
        fewer = state.lost - 1
        if free:
            yield f"{label}: done, no answer", with_actor(kept._replace(lost=fewer), place, unknown)
            # A balancer sent it twice, and passes on the second answer.
            yield f"{label}: done, and refused", with_actor(kept._replace(lost=fewer), place, refused)
        yield f"{label}: not done, no answer", with_actor(state._replace(lost=fewer), place, unknown)
        flying = state._replace(lost=fewer, flying=(number, record))
        yield f"{label}: no answer yet", with_actor(flying, place, unknown)


def _append_floor(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    label = f"reads the floor: {said_floor(state)}"
    if state.floor is not None and state.floor[0] >= len(actor.held):
        yield label, with_actor(state, place, actor._replace(at="catch up"))
    else:
        yield f"{label}; is told: committed", _acknowledged(rules, state, place, actor)


def _acknowledged(rules: Rules, state: State, place: int, actor: Actor) -> State:
    held = (*actor.held, _own(rules, place, actor.left))
    reading = actor._replace(reading=held, since=0, then="commit")
    return finished(rules, state, place, reading)


CALLS: dict[str, Call] = {"birth": _birth, "append": _append, "append's floor": _append_floor}
"""What comes next, by the name of the call."""

"""Publishing a state of the numbered log, and trimming it: the parts of a trim in their order."""

from __future__ import annotations

from tests.model.log.state import (
    DONE,
    Actor,
    Call,
    Rules,
    State,
    Steps,
    put,
    said,
    said_floor,
    snapshot_of,
    with_actor,
)


def _published(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    found = state.manifest
    newer = len(found) >= len(actor.held)
    moved = rules.go_on(place, actor) if newer else actor._replace(at="publish", reading=found)
    yield f"reads manifest.json: {said(found)}", with_actor(state, place, moved)


def _publish(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    if state.manifest != actor.reading:
        yield "publishes: refused", with_actor(state, place, actor._replace(at="published", reading=()))
        return
    moved = rules.go_on(place, actor._replace(reading=()))
    yield f"publishes {said(actor.held)}", with_actor(state._replace(manifest=actor.held), place, moved)


def loaded(rules: Rules, place: int, actor: Actor) -> Actor:
    """After the load that a trim begins with."""
    return actor._replace(at="floor before") if actor.held else _trimmed(rules, place, actor)


def _floor_before(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    before = state.floor[0] if state.floor else -1
    goal = len(actor.held) - 1 - rules.keep
    if goal <= before:
        moved = actor._replace(at="remove", then=rules.trim_order[-1], goal=before, held=())
    else:
        moved = _phase(rules.trim_order[0], actor._replace(goal=goal))
    yield f"reads the floor: {said_floor(state)}", with_actor(state, place, moved)


def _phase(name: str, actor: Actor) -> Actor:
    return actor._replace(at="published" if name == "publish" else name, then=name, reading=(), floor=None)


def next_phase(rules: Rules, place: int, actor: Actor) -> Actor:
    """After a part of a trim."""
    order = rules.trim_order
    position = order.index(actor.then) + 1
    return _phase(order[position], actor) if position < len(order) else _trimmed(rules, place, actor)


def _trimmed(rules: Rules, place: int, actor: Actor) -> Actor:
    return Actor("load", "trim", actor.left - 1) if actor.left > 1 else DONE


def _snapshot(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    number = len(actor.held) - 1
    kept = state
    if not snapshot_of(state.snapshots, number):
        kept = state._replace(snapshots=tuple(sorted((*state.snapshots, actor.held), key=len)))
    yield f"puts snapshot {number}", with_actor(kept, place, actor._replace(at="snapshot back"))


def _snapshot_back(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    found = snapshot_of(state.snapshots, len(actor.held) - 1)
    if found[-1:] == actor.held[-1:]:
        moved = next_phase(rules, place, actor)
    elif not found and rules.floor_before_doubt:
        moved = actor._replace(at="snapshot's floor")
    else:
        moved = actor._replace(at="!a snapshot does not read back as written")
    yield f"reads snapshot {len(actor.held) - 1} back", with_actor(state, place, moved)


def _snapshot_floor(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    """Another trimmer may be further already, and have removed it."""
    if state.floor is not None and state.floor[0] >= len(actor.held) - 1:
        moved = next_phase(rules, place, actor)
    else:
        moved = actor._replace(at="!a snapshot does not read back as written")
    yield f"reads the floor: {said_floor(state)}", with_actor(state, place, moved)


def _raise(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    if state.floor is not None and state.floor[0] >= actor.goal:
        moved = next_phase(rules, place, actor)
    else:
        moved = actor._replace(at="list snapshots", floor=state.floor)
    yield f"reads the floor: {said_floor(state)}", with_actor(state, place, moved)


def _list_snapshots(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    newest = len(state.snapshots[-1]) - 1 if state.snapshots else -1
    if newest >= actor.goal:
        moved = actor._replace(at="put floor", first=newest)
    elif rules.trim_order.index("raise") < rules.trim_order.index("snapshot"):
        moved = actor._replace(at="put floor", first=len(actor.held) - 1)
    else:
        moved = actor._replace(at="!no snapshot covers the new floor")
    yield "lists the snapshots", with_actor(state, place, moved)


def _put_floor(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    again = actor._replace(at="raise", floor=None, first=-1)
    if state.floor != actor.floor:
        yield "raises the floor: refused", with_actor(state, place, again)
        return
    raised = state._replace(floor=(actor.goal, actor.first))
    yield f"raises the floor to {actor.goal}", with_actor(raised, place, again)


def _remove(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    named = state.floor[1] if state.floor else -1
    moved = actor._replace(at="list all", first=named)
    yield f"reads the floor: {said_floor(state)}", with_actor(state, place, moved)


def _list_all(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    """``listed``: twice the number of a record, once more for that of a snapshot, which is the order of their keys."""
    records = [2 * number for number in range(actor.goal + 1) if state.records[number]]
    kept = [len(history) - 1 for history in state.snapshots]
    snapshots = [2 * number + 1 for number in kept if number < actor.goal and number != actor.first]
    listed = tuple(sorted((*records, *snapshots)))
    last = actor.then == rules.trim_order[-1]
    listing = actor._replace(held=() if last else actor.held, first=-1, listed=listed)
    moved = listing._replace(at="delete") if listed else next_phase(rules, place, listing)
    yield "lists what to remove", with_actor(state, place, moved)


def _delete(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    number, is_snapshot = divmod(actor.listed[0], 2)
    rest = actor._replace(listed=actor.listed[1:])
    moved = rest if rest.listed else next_phase(rules, place, rest)
    if is_snapshot:
        left = tuple(kept for kept in state.snapshots if len(kept) != number + 1)
        yield f"deletes snapshot {number}", with_actor(state._replace(snapshots=left), place, moved)
    else:
        gone = state._replace(records=put(state.records, number, None))
        yield f"deletes record {number}", with_actor(gone, place, moved)


CALLS: dict[str, Call] = {
    "published": _published,
    "publish": _publish,
    "floor before": _floor_before,
    "snapshot": _snapshot,
    "snapshot back": _snapshot_back,
    "snapshot's floor": _snapshot_floor,
    "raise": _raise,
    "list snapshots": _list_snapshots,
    "put floor": _put_floor,
    "remove": _remove,
    "list all": _list_all,
    "delete": _delete,
}
"""What comes next, by the name of the call."""

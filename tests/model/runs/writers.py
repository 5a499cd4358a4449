"""Writers: of atomic runs, as ``singerlake.stores.atomic.commit_run`` goes about them, and of plain messages."""

from __future__ import annotations

from tests.model.runs.appends import ENDED, append, decides, said_decision
from tests.model.runs.logs import folded, held
from tests.model.runs.state import (
    DONE,
    STOPPED,
    Actor,
    Decision,
    Part,
    Rules,
    State,
    Steps,
    appended,
    decision_of,
    told,
    with_actor,
    with_part,
)


def begun(rules: Rules, place: int) -> Actor:
    """A writer of runs that loaded its streams when they were empty."""
    parts = tuple(Part("append") for _ in rules.runs[place])
    return Actor("prepare", parts, _name(rules, place, "", 1), rules.attempts)


def run_steps(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    """What a writer of runs may do next."""
    if actor.at in ("prepare", "catch up"):
        yield from _parts(rules, state, place, actor)
    elif actor.at in ("decide", "against"):
        yield from _decide(rules, state, place, actor)
    elif actor.at == "decision":
        found = decision_of(state, actor.name)
        label = f"reads the decision about {actor.name}: {said_decision(found)}"
        if found is None:
            yield label, with_actor(state, place, _against(actor))
        else:
            yield label, _knows(rules, state, place, actor, found)
    elif actor.at == "settle":
        yield from _settle(rules, state, place, actor)


def plain_steps(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    """What a plain writer may do next."""
    stream, part = rules.streams_of(place)[0], actor.parts[0]
    own = f"{rules.called(place)}{rules.messages - actor.left + 1}"
    for label, after, moved in append(rules, state, stream, part, own, waits=True):
        if moved.at != "ready":
            yield label, with_actor(after, place, with_part(actor, 0, moved))
            continue
        length = len(folded(after.logs[stream][: moved.held]).messages)
        left = actor.left - 1
        following = actor._replace(parts=(Part("append", moved.held),), left=left) if left else DONE
        yield label, with_actor(told(after, {stream: length}), place, following)


def _name(rules: Rules, place: int, settled: str, attempt: int) -> str:
    time = rules.clocks[place]
    if settled and rules.greater_names:
        time = max(time, int(settled[0]) + 1)
    return f"{time}{rules.called(place)}{attempt}"


def _parts(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    """The first attempt has all streams in hand at once, and waits for nobody; later ones wait, stream by stream."""
    preparing = actor.at == "prepare"
    patient = actor.left < rules.attempts
    own = f"?{actor.name}" if preparing else ""
    streams = rules.streams_of(place)
    order = list(range(len(streams)))
    if preparing and patient:
        if not rules.one_order and place % 2:
            order.reverse()
        order = [which for which in order if actor.parts[which].at not in ENDED][:1]
    for which in order:
        for label, after, moved in append(rules, state, streams[which], actor.parts[which], own, waits=patient):
            following = _followed(rules, after, place, with_part(actor, which, moved))
            yield label, with_actor(after, place, following)


def _followed(rules: Rules, state: State, place: int, actor: Actor) -> Actor:
    places = [part.at for part in actor.parts]
    if actor.at == "prepare":
        if all(at == "ready" for at in places) or (not rules.all_prepared and "ready" in places):
            return actor._replace(at="decide")
        return _against(actor) if all(at in ENDED for at in places) else actor
    if any(at != "caught up" for at in places):
        return actor
    logs = [state.logs[stream] for stream in rules.streams_of(place)]
    states = [folded(held(log, part)) for log, part in zip(logs, actor.parts, strict=True)]
    settled = max(each.settled for each in states)
    parts = tuple(
        part._replace(at="wait" if each.undecided else "append") for each, part in zip(states, actor.parts, strict=True)
    )
    name = _name(rules, place, settled, rules.attempts - actor.left + 1)
    return actor._replace(at="prepare", name=name, parts=parts)


def _against(actor: Actor) -> Actor:
    """Only a decision for the run, once all was prepared, may come to the fore yet."""
    prepared = all(part.at == "ready" for part in actor.parts)
    return actor._replace(at="against", parts=actor.parts if prepared else tuple(Part("ended") for _ in actor.parts))


def _decide(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    decision = Decision(actor.name, False)
    if actor.at == "decide":
        decision = Decision(actor.name, True, _brought(rules, state, place, actor))
    for label, after, what in decides(rules, state, decision):
        if what == "done" or (what == "refused" and not rules.decision_read_back):
            yield label, _knows(rules, after, place, actor, decision)
        else:
            yield label, with_actor(after, place, actor._replace(at="decision"))


def _brought(rules: Rules, state: State, place: int, actor: Actor) -> tuple[tuple[int, int], ...]:
    """The offsets that the run's messages have once they are settled."""
    prepared = zip(rules.streams_of(place), actor.parts, strict=True)
    return tuple((stream, len(folded(state.logs[stream][: part.held]).messages)) for stream, part in prepared)


def _knows(rules: Rules, state: State, place: int, actor: Actor, decision: Decision) -> State:
    """The decision counts, whoever made it: the run is acknowledged, or begins again under another name."""
    if decision.committed:
        after = told(state, {stream: at + 1 for stream, at in decision.brought})
        parts = tuple(Part("settle", part.held) if part.at == "ready" else Part("settled") for part in actor.parts)
        return with_actor(after, place, Actor("settle", parts, actor.name))
    left = actor.left - 1
    again = tuple(Part("read") for _ in actor.parts)
    return with_actor(state, place, Actor("catch up", again, left=left) if left else STOPPED)


def _settle(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    which = [part.at for part in actor.parts].index("settle")
    stream, part = rules.streams_of(place)[which], actor.parts[which]
    following = with_part(actor, which, Part("settled"))
    if all(each.at == "settled" for each in following.parts):
        following = DONE
    label = f"appends +{actor.name} as {part.held} to stream {stream}"
    kept = appended(state, stream, part.held, f"+{actor.name}")
    if kept is not None:
        yield label, with_actor(kept, place, following)
    else:
        yield f"{label}: refused", with_actor(state, place, following)

"""Readers: a view of all streams, as ``singerlake.stores.atomic.view`` takes it, and the views as of each commit."""

from __future__ import annotations

from tests.model.runs.appends import said, said_decision
from tests.model.runs.logs import as_of, ends_of, first, folded, held, part_of_a_run, settlement
from tests.model.runs.state import (
    DONE,
    Actor,
    Decision,
    Part,
    Rules,
    State,
    Steps,
    decision_of,
    told,
    with_actor,
    with_part,
)


def reader(rules: Rules, views: int) -> Actor:
    """A reader before its next view."""
    return Actor("list", left=views)


def view_steps(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    """What a reader may do next."""
    if actor.at == "list":
        begins = actor if actor.since else actor._replace(since=state.told)
        yield from _list(rules, state, place, begins)
    elif actor.at == "load":
        for which, part in enumerate(actor.parts):
            if part.at != "loaded":
                yield _load(rules, state, place, actor, which)
    elif actor.at == "list again":
        yield from _list(rules, state, place, actor)


def _list(rules: Rules, state: State, place: int, actor: Actor) -> Steps:
    """The whole listing at once, or one name of it, as it is when it is asked for. What was decided against is in a
    listing, too, but nobody has to know it."""
    decided = [each for each in state.decisions if each.name > actor.cursor]
    page = decided[:1] if rules.pages else decided
    names = tuple(each.name for each in page if each.committed)
    label = f"lists the decisions{' from ' + actor.cursor if actor.cursor else ''}: {said(names)}"
    cursor = page[-1].name if rules.pages and page else ""
    if actor.at == "list":
        moved = actor._replace(before=(*actor.before, *names), cursor=cursor)
        if not cursor:
            moved = moved._replace(at="load", parts=(Part("read"),) * rules.streams)
    else:
        moved = actor._replace(after=(*actor.after, *names), cursor=cursor)
        if not cursor:
            yield label, _ended(rules, state, place, moved)
            return
    yield label, with_actor(state, place, moved)


def _load(rules: Rules, state: State, place: int, actor: Actor, which: int) -> tuple[str, State]:
    part, log = actor.parts[which], state.logs[which]
    if part.at == "read":
        undecided = folded(log).undecided
        moved = Part("decision" if undecided and rules.decision_counts else "loaded", len(log))
        if undecided and not rules.undecided_left_out:
            moved = Part("loaded", len(log), f"+{undecided}")
        label = f"reads stream {which}: {said(log)}"
    else:
        name = folded(log[: part.held]).undecided
        found = decision_of(state, name)
        moved = Part("loaded", part.held, settlement(found) if found else "")
        label = f"reads the decision about {name}: {said_decision(found)}"
    after = with_part(actor, which, moved)
    if any(each.at != "loaded" for each in after.parts):
        return label, with_actor(state, place, after)
    if rules.listed_again:
        return label, with_actor(state, place, after._replace(at="list again"))
    return label, _ended(rules, state, place, after._replace(after=after.before))


def _ended(rules: Rules, state: State, place: int, actor: Actor) -> State:
    """The view is held against what is promised, and so is each as of a commit that the reader could know."""
    messages = [folded(held(log, part)).messages for log, part in zip(state.logs, actor.parts, strict=True)]
    every = [each for each in state.decisions if each.name in actor.after]
    ends = ends_of(rules, messages, actor.before, every)
    seen = first(messages, ends)
    wrong = part_of_a_run(rules, seen)
    shorter = [stream for stream, end in enumerate(ends) if end < actor.since[stream]]
    if not wrong and shorter:
        wrong = f"stream {shorter[0]} ends at {ends[shorter[0]]}, and {actor.since[shorter[0]]} was told of before"
    if not wrong:
        wrong = _wrong_as_of(rules, actor, messages, ends, every)
    if wrong:
        return with_actor(state, place, Actor(f"!{wrong}"))
    after = told(state, dict(enumerate(ends)))
    return with_actor(after, place, reader(rules, actor.left - 1) if actor.left > 1 else DONE)


def _wrong_as_of(
    rules: Rules, actor: Actor, messages: list[tuple[str, ...]], ends: list[int], every: list[Decision]
) -> str:
    """What is wrong as of a commit. Without a cut, the first listing alone says what there is."""
    if not rules.as_of_cut:
        ends = [len(each) for each in messages]
        every = [each for each in every if each.name in actor.before]
    for name in actor.before:
        wrong = part_of_a_run(rules, first(messages, as_of(name, every, ends)))
        if wrong:
            return f"as of {name}, {wrong}"
    return ""

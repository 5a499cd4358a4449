"""Collecting segments: ``singerlake.upkeep.gc.segments``."""

from __future__ import annotations

from tests.model.segments.state import (
    ABANDONED,
    NONE,
    UNNAMED,
    UNNOTED,
    Collector,
    Names,
    Rules,
    Segment,
    State,
    Steps,
    active,
    collector_name,
    said,
    with_segment,
)


def collect(rules: Rules, state: State, place: int, collector: Collector) -> Steps:
    """One look of a collector, request by request. That it takes a while from its first question for the time until it
    lists is a step of its own only where it notes with that time: else it only leaves more alone."""
    if collector.at == "done":
        return
    order = _order(rules)
    for label, after, moved in _look(rules, state, place, collector):
        if moved.at in order or moved.at == "act":
            going = with_collector(after, place, moved)
            last = moved.at == "act" and rules.asked_last
            yield label, with_collector(after, place, moved._replace(asked=active(going)) if last else moved)
        else:
            yield label, with_collector(after, place, moved)
    if collector.at != "open":
        yield "dies", with_collector(state, place, Collector("done", 0))


def _order(rules: Rules) -> tuple[str, ...]:
    states = ("manifest", "snapshots") if rules.trims and rules.snapshots_read else ("manifest",)
    first = () if rules.asked_last else ("ask",)
    return (*first, "list", *states) if rules.listed_first else (*first, *states, "list")


def _look(rules: Rules, state: State, place: int, collector: Collector) -> list[tuple[str, State, Collector]]:
    order = _order(rules)
    at = order[0] if collector.at == "open" else collector.at
    if at == "act":
        due = frozenset(
            segment
            for segment in collector.listed
            if state.segments[segment].there and _is_due(rules, state.segments[segment], segment, collector)
        )
        if due:
            gone = state
            for segment in due:
                gone = with_segment(gone, segment, gone.segments[segment]._replace(there=False))
            return [(f"deletes {said(due)}", gone, collector._replace(at="note"))]
        return [_note(rules, state, place, collector)]
    if at == "note":
        return [_note(rules, state, place, collector)]
    following = (*order, "act")[order.index(at) + 1]
    moved = collector._replace(at=following)
    if at == "ask":
        asked = active(with_collector(state, place, moved))
        return [("asks for the time", state, moved._replace(asked=asked))]
    if at == "list":
        listed = frozenset(
            number
            for number, each in enumerate(state.segments)
            if each.there and _has_waited(rules, each, collector_name(place))
        )
        return [(f"lists, with {said(listed)} to take a step", state, moved._replace(listed=listed, current=True))]
    if at == "manifest":
        read = (f"reads manifest.json, with {said(state.manifest)}", state, moved._replace(named=state.manifest))
        # If it stops, that is as if it died.
        return [read] if rules.stops else [read, ("cannot read manifest.json, and goes on", state, moved)]
    names: Names = NONE.union(*(names for _, names in state.snapshots))
    return [(f"reads the snapshots, with {said(names)}", state, moved._replace(named=collector.named | names))]


def _has_waited(rules: Rules, segment: Segment, name: str) -> bool:
    if segment.stage == UNNOTED:
        return not rules.old_only or not segment.written - {name}
    return not rules.grace or not segment.noted - {name}


def _is_due(rules: Rules, segment: Segment, place: int, collector: Collector) -> bool:
    last = ABANDONED if rules.twice else UNNAMED
    return segment.stage == last and (place not in collector.named or not rules.looked_again)


def _note(rules: Rules, state: State, place: int, collector: Collector) -> tuple[str, State, Collector]:
    left = collector.left - 1
    ended = Collector("open", left) if left else Collector("done", 0)
    if not collector.current:
        return "notes: refused", state, ended
    segments = []
    for number, segment in enumerate(state.segments):
        named = number in collector.named and (rules.looked_again or segment.stage == UNNOTED)
        if segment.stage and (not segment.there or named):
            segments.append(segment._replace(stage=UNNOTED, noted=frozenset()))
        elif segment.there and not named and number in collector.listed:
            segments.append(segment._replace(stage=segment.stage + 1, noted=collector.asked))
        else:
            segments.append(segment)
    others = tuple(each._replace(current=False) for each in state.collectors)
    return "notes", state._replace(segments=tuple(segments), collectors=others), ended


def with_collector(state: State, place: int, collector: Collector) -> State:
    """The state with a collector elsewhere."""
    return state._replace(collectors=(*state.collectors[:place], collector, *state.collectors[place + 1 :]))

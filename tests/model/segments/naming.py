"""Who stores states that name segments, and who reads them: ``singerlake.stores.segments.stored``, and its uses in
the stores."""

from __future__ import annotations

from tests.model.segments.state import (
    NONE,
    Names,
    Reader,
    Rules,
    Segment,
    State,
    Steps,
    Trimmer,
    Writer,
    active,
    published,
    said,
    with_segment,
)


def write(rules: Rules, state: State, place: int, writer: Writer) -> Steps:
    """A writer, or who publishes: a state in the place of the one that it read."""

    def moved(after: State, writer: Writer) -> State:
        return after._replace(writers=(*after.writers[:place], writer, *after.writers[place + 1 :]))

    if writer.at in ("open", "again"):
        following = "segment" if writer.fresh < 0 and rules.segments_first else "state"
        read = writer._replace(at=following, held=state.manifest, current=True)
        yield f"reads manifest.json, with {said(state.manifest)}", moved(state, read)
    elif writer.at == "segment":
        yield from (
            (label, moved(after, writer._replace(at="state" if rules.segments_first else "done", fresh=new)))
            for label, after, new in _stored(state, writer.fresh)
        )
    elif writer.at == "state" and not writer.current:
        yield "is refused", moved(state, writer._replace(at="again", held=NONE))
    elif writer.at == "state":
        if not rules.segments_first:
            new = len(state.segments)
            named = published(state, frozenset((new,)))._replace(segments=(*state.segments, Segment(there=False)))
            yield f"stores a state with {new + 1}", moved(named, writer._replace(at="segment", fresh=new))
            return
        for names in sorted(_choices(rules, writer), key=sorted):
            left = writer.left - 1
            memory = -1 if rules.only_replaced else writer.fresh
            after = Writer("open", left, memory=memory) if left else Writer("done", 0)
            yield f"stores a state with {said(names)}", moved(published(state, names), after)
    if writer.at not in ("open", "done"):
        yield "dies", moved(state, Writer("done", 0))


def _choices(rules: Rules, writer: Writer) -> set[Names]:
    """What its state names: what the last segment became, or a further one, or one that it remembers."""
    fresh = frozenset((writer.fresh,))
    choices = {fresh, fresh | writer.held} if rules.keeps else {fresh}
    if writer.memory >= 0:
        choices.add(fresh | {writer.memory})
    return choices


def _stored(state: State, place: int) -> list[tuple[str, State, int]]:
    written = Segment(written=active(state))
    if place >= 0:
        return [(f"stores segment {place + 1}", with_segment(state, place, written), place)]
    new = len(state.segments)
    return [(f"stores segment {new + 1}", state._replace(segments=(*state.segments, written)), new)]


def trim(rules: Rules, state: State, place: int, trimmer: Trimmer) -> Steps:
    """A snapshot, which names what ``manifest.json`` named before, or a new segment; then the floor; then the older
    snapshots go. That it publishes is a writer's step, where it names no more than a writer may."""

    def moved(after: State, trimmer: Trimmer) -> State:
        return after._replace(trimmers=(*after.trimmers[:place], trimmer, *after.trimmers[place + 1 :]))

    if trimmer.at == "open" and state.manifest:
        read = trimmer._replace(at="snapshot", held=state.manifest)
        yield f"reads manifest.json, with {said(state.manifest)}", moved(state, read)
    elif trimmer.at == "snapshot":
        number = state.last + 1
        put = state._replace(snapshots=(*state.snapshots, (number, trimmer.held)), last=number)
        following = "floor" if rules.publishes_fresh else "look"
        yield (
            f"puts snapshot {number}, with {said(trimmer.held)}",
            moved(
                put, trimmer._replace(at=following, number=number, held=NONE if rules.publishes_fresh else trimmer.held)
            ),
        )
        if trimmer.fresh < 0 and rules.keeps:
            for label, after, new in _stored(state, -1):
                yield label, moved(after, trimmer._replace(held=frozenset((new,)), fresh=new))
    elif trimmer.at == "look":
        yield "reads manifest.json", moved(state, trimmer._replace(at="publish", current=True))
    elif trimmer.at == "publish" and not trimmer.current:
        yield "is refused", moved(state, trimmer._replace(at="look"))
    elif trimmer.at == "publish":
        after = published(state, trimmer.held)
        yield f"publishes a state with {said(trimmer.held)}", moved(after, trimmer._replace(at="floor", held=NONE))
    elif trimmer.at == "floor":
        raised = state._replace(floor=max(state.floor, trimmer.number))
        yield "raises the floor", moved(raised, trimmer._replace(at="remove"))
    elif trimmer.at == "remove":
        kept = tuple(each for each in state.snapshots if each[0] >= state.floor)
        left = trimmer.left - 1
        after = state._replace(snapshots=kept)
        yield "removes older snapshots", moved(after, Trimmer("open", left) if left else Trimmer("done", 0))
    if trimmer.at not in ("open", "done"):
        yield "dies", moved(state, Trimmer("done", 0))


def read(state: State, place: int, reader: Reader) -> Steps:
    """A reader of ``manifest.json``, or of the snapshot that the floor names."""

    def moved(reader: Reader) -> State:
        return state._replace(readers=(*state.readers[:place], reader, *state.readers[place + 1 :]))

    if reader.at == "open":
        for segment in sorted(state.manifest):
            yield f"loads manifest.json, with {segment + 1}", moved(Reader("read", segment))
        for number, names in state.snapshots:
            if number == state.floor:
                for segment in sorted(names - state.manifest):
                    yield f"loads snapshot {number}, with {segment + 1}", moved(Reader("read", segment))
    elif reader.at == "read":
        lost = "" if state.segments[reader.segment].there else f"a reader misses segment {reader.segment + 1}"
        yield f"reads segment {reader.segment + 1}", moved(Reader("done"))._replace(lost=lost)

"""An attached file that several records have, collected while it is used again: ``singerlake.attached.keep``,
``singerlake.upkeep.gc`` and what the fold says of both. A commit is one step: the stores' own models show that it
is. Every request is a step, so one may take as long as its sender's work, which is less than a grace time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.model.collecting.state import (
    DELETED,
    RETIRED,
    SHOWN,
    UNKNOWN,
    Collector,
    Copy,
    Reader,
    Rules,
    State,
    Steps,
    Writer,
    active,
    aged,
    collector_name,
    reader_name,
    with_collector,
    with_copy,
    writer_name,
)


@dataclass(frozen=True, kw_only=True)
class Attached(Rules):
    """One file, as a model to explore."""

    def starts(self) -> Iterator[State]:
        yield State(
            copies=(Copy(),) * self.copies,
            published=(False,) * self.copies,
            writers=tuple(Writer("open", count) for count in self.files),
            collectors=tuple(Collector("load", count) for count in self.rounds),
            readers=(Reader("load"),) * self.readers,
            erasures=self.erasures,
        )

    def steps(self, state: State) -> Steps:
        for place, writer in enumerate(state.writers):
            for label, after in self._write(state, place, writer):
                yield f"{writer_name(place)} {label}", self._quiet(after)
        for place, collector in enumerate(state.collectors):
            for label, after in self._collect(state, place, collector):
                yield f"{collector_name(place)} {label}", self._quiet(after)
        for place, reader in enumerate(state.readers):
            for label, after in self._read(state, place, reader):
                yield f"{reader_name(place)} {label}", self._quiet(after)
        for label, after in self._erase(state):
            yield label, self._quiet(after)
        listed = tuple(copy.listed > 0 for copy in state.copies)
        if self.readers and state.published != listed:
            yield "manifest.json follows", state._replace(published=listed)

    def wrong(self, state: State) -> str | None:
        for number, copy in enumerate(state.copies, 1):
            if copy.listed and not copy.there:
                return f"copy {number} is listed, and its object is gone"
        return state.lost or None

    def like(self, state: State) -> State:
        return state

    def _quiet(self, state: State) -> State:
        """What is recent without those who ended: that is all there is to a grace time."""
        working = active(self, state)
        return state._replace(copies=tuple(copy._replace(recent=copy.recent & working) for copy in state.copies))

    def _write(self, state: State, place: int, writer: Writer) -> Steps:
        def moved(after: State, writer: Writer) -> State:
            return after._replace(writers=(*after.writers[:place], writer, *after.writers[place + 1 :]))

        if writer.at == "open":
            free = (number for number, copy in enumerate(state.copies) if copy.stage == UNKNOWN)
            if not self.other_copy:
                free = iter((0,))
            copy = next(free, None)
            if copy is None:
                return
            at = "commit" if writer.remembered == copy + 1 else "put"
            yield f"opens the stream, for copy {copy + 1}", moved(state, writer._replace(at=at, copy=copy))
        elif writer.at == "put":
            there = state.copies[writer.copy]
            following = writer._replace(at="commit", remembered=writer.copy + 1)
            if there.there:
                yield f"finds copy {writer.copy + 1} there", moved(state, following)
            else:
                put = there._replace(there=True, recent=active(self, state) if there.stage == UNKNOWN else there.recent)
                yield f"stores copy {writer.copy + 1}", moved(with_copy(state, writer.copy, put), following)
        elif writer.at == "commit":
            copy = state.copies[writer.copy]
            if copy.stage == DELETED and self.other_copy:
                yield "is refused", moved(state, writer._replace(at="open"))
            else:
                listed = copy._replace(listed=copy.listed + 1, stage=UNKNOWN, since=0, recent=frozenset())
                after = writer._replace(at="open", left=writer.left - 1)
                if not after.left:
                    after = Writer("done", 0)
                yield f"lists copy {writer.copy + 1}", moved(with_copy(state, writer.copy, listed), after)
        if writer.at in ("put", "commit"):
            yield "dies", moved(state, Writer("done", 0))

    def _erase(self, state: State) -> Steps:
        for number, copy in enumerate(state.copies if state.erasures else ()):
            if copy.listed:
                less = copy._replace(listed=copy.listed - 1)
                after = state._replace(erasures=state.erasures - 1)
                if not less.listed:
                    less, after = self._retired(after, less)
                yield f"a record with copy {number + 1} is erased", with_copy(after, number, less)

    def _retired(self, state: State, copy: Copy) -> tuple[Copy, State]:
        number = state.retirements + 1
        retired = copy._replace(stage=RETIRED, since=number, recent=active(self, state))
        return retired, state._replace(retirements=number)

    def _collect(self, state: State, place: int, collector: Collector) -> Steps:
        def moved(after: State, collector: Collector) -> State:
            return with_collector(after, place, collector)

        name = collector_name(place)
        if collector.at == "load":
            listed = tuple(copy.listed > 0 for copy in state.copies)
            known = state._replace(published=listed) if self.readers else state
            yield "publishes and loads", moved(known, collector._replace(at="list", known=state.copies))
        elif collector.at == "list":
            for number, (known, now) in enumerate(zip(collector.known, state.copies, strict=True)):
                for plan in self._plans(state, known, now, name):
                    following = "check" if plan == "delete again" else "agree"
                    planned = collector._replace(at=following, plan=plan, copy=number, known=(known,))
                    yield f"lists, and plans to {plan} copy {number + 1}", moved(state, planned)
        elif collector.at == "agree":
            yield from self._agree(state, place, collector)
        elif collector.at == "check":
            copy = state.copies[collector.copy]
            if (copy.stage == DELETED and not copy.listed) or not self.looked_again:
                if self.late_begins_anew:
                    if collector.plan == "delete again" and aged(self, state, copy, but=name):
                        yield "is too late to delete it", _rested(state, place, collector)
                        return
                    # Half a grace time is left, and its request takes less: what is forgotten then is forgotten later.
                    copy = copy._replace(recent=copy.recent | {name})
                yield "looks again", moved(with_copy(state, collector.copy, copy), collector._replace(at="remove"))
            else:
                yield "looks again, and leaves it", _rested(state, place, collector)
        elif collector.at == "remove":
            gone = state.copies[collector.copy]._replace(there=False)
            after = with_copy(state, collector.copy, gone)
            yield f"deletes the object of copy {collector.copy + 1}", _rested(after, place, collector)
        if collector.at not in ("load", "done"):
            yield "dies", moved(state, Collector("done", 0))

    def _plans(self, state: State, known: Copy, now: Copy, name: str) -> Iterator[str]:
        """What to do with a copy by a state that was loaded, and the objects as they are listed now."""
        over = aged(self, state, known, but=name)
        if known.stage == UNKNOWN and not known.listed and now.there and aged(self, state, now, but=name):
            yield "retire"
        elif known.stage == RETIRED:
            yield "show" if self.shown_first else "delete"
        elif known.stage == SHOWN and (over or not self.grace_before_deletion):
            yield "delete"
        elif known.stage == DELETED and now.there:
            if over and self.late_begins_anew:
                yield "begin anew with"
            else:
                yield "delete again"
        elif known.stage == DELETED and (over or not self.grace_before_forgetting):
            yield "forget"

    def _agree(self, state: State, place: int, collector: Collector) -> Steps:
        copy, (known,) = state.copies[collector.copy], collector.known
        means = copy.since == known.since or not self.since_said
        label = f"agrees to {collector.plan} copy {collector.copy + 1}"
        if collector.plan == "retire":
            if copy.listed or copy.stage != UNKNOWN:
                yield f"{label}: refused", _rested(state, place, collector)
                return
            retired, after = self._retired(state, copy)
            yield label, _rested(with_copy(after, collector.copy, retired), place, collector)
            return
        needs = {"show": (RETIRED,), "delete": (SHOWN,) if self.shown_first else (RETIRED, SHOWN)}
        stages = needs.get(collector.plan, (DELETED,))
        if collector.plan == "delete" and not self.deletion_agreed:
            yield f"{label} by itself", with_collector(state, place, collector._replace(at="remove"))
            return
        if copy.stage not in stages or not means or (copy.listed and collector.plan == "delete"):
            yield f"{label}: refused, or done", _rested(state, place, collector)
            return
        recent = active(self, state)
        if collector.plan == "show":
            shown = copy._replace(stage=SHOWN, recent=recent)
            yield label, _rested(with_copy(state, collector.copy, shown), place, collector)
        elif collector.plan == "delete":
            deleted = copy._replace(stage=DELETED, recent=recent)
            after = with_copy(state, collector.copy, deleted)
            yield label, with_collector(after, place, collector._replace(at="check"))
        else:
            # Begun anew it is forgotten first, and retired as what nobody knows in a later round.
            unknown = copy._replace(stage=UNKNOWN, since=0, recent=recent if copy.there else frozenset())
            yield label, _rested(with_copy(state, collector.copy, unknown), place, collector)

    def _read(self, state: State, place: int, reader: Reader) -> Steps:
        def moved(after: State, reader: Reader) -> State:
            return after._replace(readers=(*after.readers[:place], reader, *after.readers[place + 1 :]))

        if reader.at == "load":
            for number, listed in enumerate(state.published):
                if listed:
                    yield f"loads manifest.json, which has copy {number + 1}", moved(state, Reader("read", number))
        elif reader.at == "read":
            lost = "" if state.copies[reader.copy].there else f"a reader misses copy {reader.copy + 1}"
            yield f"reads copy {reader.copy + 1}", moved(state, Reader("done"))._replace(lost=lost)


def _rested(state: State, place: int, collector: Collector) -> State:
    """A collector at the end of a round."""
    left = collector.left - 1
    return with_collector(state, place, Collector("load", left) if left else Collector("done", 0))

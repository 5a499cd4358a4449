"""A stream's states and their segments, while collectors are at work: section 12.4 of ``shared/docs/format``. A
request without an answer that lands later is the last step of a process that is slow and then dies; if its sender goes
on, that is another process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.model.segments.collect import collect
from tests.model.segments.naming import read, trim, write
from tests.model.segments.state import (
    NONE,
    UNNAMED,
    Collector,
    Reader,
    Rules,
    Segment,
    State,
    Steps,
    Trimmer,
    Writer,
    collector_name,
    compact,
    quiet,
    reader_name,
    trimmer_name,
    writer_name,
)


@dataclass(frozen=True, kw_only=True)
class Segments(Rules):
    """One stream, as a model to explore. Whoever ended may have done so long ago."""

    def starts(self) -> Iterator[State]:
        # If what was just written is noted, then so was the segment of a stream that is born already.
        first = Segment() if self.old_only else Segment(stage=UNNAMED)
        yield State(
            segments=(first,) if self.born else (),
            manifest=frozenset((0,)) if self.born else NONE,
            snapshots=(),
            floor=-1,
            last=-1,
            writers=tuple(Writer("open", count) for count in self.commits),
            trimmers=tuple(Trimmer("open", count) for count in self.trims),
            collectors=tuple(Collector("open", count) for count in self.rounds),
            readers=(Reader("open"),) * self.readers,
        )

    def steps(self, state: State) -> Steps:
        for place, writer in enumerate(state.writers):
            for label, after in write(self, state, place, writer):
                yield f"{writer_name(place)} {label}", quiet(after)
        for place, trimmer in enumerate(state.trimmers):
            for label, after in trim(self, state, place, trimmer):
                yield f"{trimmer_name(place)} {label}", quiet(after)
        for place, collector in enumerate(state.collectors):
            for label, after in collect(self, state, place, collector):
                yield f"{collector_name(place)} {label}", quiet(after)
        for place, reader in enumerate(state.readers):
            for label, after in read(state, place, reader):
                yield f"{reader_name(place)} {label}", quiet(after)

    def wrong(self, state: State) -> str | None:
        for number, names in (("manifest.json", state.manifest), *state.snapshots):
            for segment in sorted(names):
                if not state.segments[segment].there:
                    where = f"snapshot {number}" if isinstance(number, int) else number
                    return f"{where} names segment {segment + 1}, which is not there"
        return state.lost or None

    def like(self, state: State) -> State:
        return compact(state)

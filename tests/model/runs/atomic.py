"""Atomic runs over several logs, as ``shared/docs/format`` 11.6 has them: every call to the storage is one step, and
anybody may stop for ever between two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.model.runs.logs import as_of, contradiction, first, folded, part_of_a_run, shown
from tests.model.runs.readers import reader, view_steps
from tests.model.runs.state import Actor, Part, Rules, State, Steps, appended, decided
from tests.model.runs.writers import begun, plain_steps, run_steps


@dataclass(frozen=True, kw_only=True)
class AtomicRuns(Rules):
    """The streams of a tap in the store ``log``, as a model to explore."""

    def starts(self) -> Iterator[State]:
        actors = [begun(self, place) for place in range(len(self.runs))]
        actors += [Actor("append", (Part("append"),), left=self.messages)] * len(self.plain)
        actors += [reader(self, self.views)] * self.readers
        yield State(((),) * self.streams, (), None, self.lost, (0,) * self.streams, tuple(actors))

    def steps(self, state: State) -> Steps:
        for place, actor in enumerate(state.actors):
            for label, after in self._steps_of(state, place, actor):
                yield f"{self.called(place)} {label}", after
        if state.flying is not None:
            stream, number, record, decision = state.flying
            landed = state._replace(flying=None)
            if decision is not None:
                yield f"the decision about {decision.name} lands late", decided(landed, decision) or landed
            else:
                yield (
                    f"{record} lands late as {number} in stream {stream}",
                    appended(landed, stream, number, record) or landed,
                )

    def wrong(self, state: State) -> str | None:
        for place, actor in enumerate(state.actors):
            if actor.at.startswith("!"):
                return f"{self.called(place)}: {actor.at[1:]}"
        changed = [each.name for each in state.decisions if each.changed]
        if changed:
            return f"the decision about {changed[0]} changed"
        for stream, log in enumerate(state.logs):
            wrong = folded(log).wrong
            if wrong:
                return f"stream {stream} cannot be read: {wrong}"
            other = contradiction(log, state.decisions)
            if other:
                return f"stream {stream} has {other}, which was not decided so"
        return self._wrong_now(state) or self._waits_for_ever(state)

    def like(self, state: State) -> State:
        """All names are left as they are."""
        return state

    def _steps_of(self, state: State, place: int, actor: Actor) -> Steps:
        if place < len(self.runs):
            return run_steps(self, state, place, actor)
        if place < len(self.runs) + len(self.plain):
            return plain_steps(self, state, place, actor) if actor.left else iter(())
        return view_steps(self, state, place, actor)

    def _wrong_now(self, state: State) -> str | None:
        """What is wrong with what somebody would find who read everything in one step."""
        messages = [shown(log, state.decisions) for log in state.logs]
        half = part_of_a_run(self, messages)
        if half:
            return half
        for stream, told in enumerate(state.told):
            if len(messages[stream]) < told:
                return f"stream {stream} has {len(messages[stream])} messages, and {told} were told of"
        every = [each for each in state.decisions if each.committed]
        for decision in every:
            half = part_of_a_run(self, first(messages, as_of(decision.name, every, [len(each) for each in messages])))
            if half:
                return f"as of {decision.name}, {half}"
        return None

    def _waits_for_ever(self, state: State) -> str | None:
        """Somebody who is not done, though nobody stopped, and nothing can happen any more."""
        waiting = [place for place, actor in enumerate(state.actors) if any(part.at == "wait" for part in actor.parts)]
        if not waiting or any(True for _ in self.steps(state)):
            return None
        return f"{' and '.join(self.called(place) for place in waiting)} wait for ever"

"""What is so of atomic runs, whatever any actor believes: which files each brought to which streams, what was decided,
and what anybody was told."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from singerlake.format.decision import Decision
from singerlake.format.state.model import Manifest
from singerlake.stores.atomic.view import StreamView
from tests.simulation.watches.truth import Fail, Truth

Told = dict[str, int]
"""How long each stream is known to be."""


class StreamTruth(Truth):
    """What is so of one stream. A run that is decided is in its state, whether the log says so yet or not."""

    def saw(self, state: Manifest, *, told: bool = True) -> None:
        if not told and state.prepared is not msgspec.UNSET:
            self._fail(f"state {state.transaction.number} is undecided, and was kept or published")
        super().saw(state, told=told)

    def end_of(self, id: str) -> int | None:
        """The offset behind a file's messages; None where it is in no state."""
        offset = self._place.get(id)
        return None if offset is None else offset + sum(messages for _, messages in self._made[id])


class Runs:
    """The runs of one tap, over the truths of its streams."""

    def __init__(self, fail: Fail, streams: Mapping[str, StreamTruth]) -> None:
        self._fail = fail
        self.streams = streams
        self.decisions: dict[str, Decision] = {}
        self.told: Told = dict.fromkeys(streams, 0)
        self._files: dict[str, dict[str, list[str]]] = {}
        self._refused: set[str] = set()

    def begins(self, run: str, files: dict[str, list[str]]) -> None:
        """A run is about to commit these files, by stream."""
        self._files[run] = files

    def acked(self, run: str) -> None:
        """A writer was told that its run is in the lake."""
        for stream, ids in self._files[run].items():
            for id in ids:
                self.acked_file(stream, id)

    def acked_file(self, stream: str, id: str) -> None:
        """A writer was told that its file is committed."""
        truth = self.streams[stream]
        truth.acked(id)
        self.told[stream] = max(self.told[stream], truth.end_of(id) or 0)

    def refused(self, run: str) -> None:
        """A writer was told that nothing of its run is visible, or ever will be."""
        self._refused.add(run)

    def decided(self, decision: Decision) -> None:
        """A decision took effect, and with it what it settles."""
        self.decisions[decision.id] = decision
        for run in self._files:
            self._whole(run, {stream: self._newest(stream) for stream in self.streams}, "the lake")

    def viewed(self, views: Mapping[str, StreamView], before: Told) -> None:
        """A reader was given a view that it asked for when ``before`` was known."""
        seen = self._seen(views)
        for run in self._files:
            self._whole(run, seen, "a view")
        for stream, end in before.items():
            if end > (views[stream].end if stream in views else 0):
                self._fail(f"a view of stream {stream} ends before {end}, which was known before it was asked for")
        for stream, each in views.items():
            self.told[stream] = max(self.told[stream], each.end)

    def viewed_as_of(self, views: Mapping[str, StreamView], commit: str, known: Mapping[str, Decision]) -> None:
        """A reader was given a view as of a commit, of the decisions that were ``known`` when it was asked for."""
        seen = self._seen(views)
        for run in self._files:
            self._whole(run, seen, f"a view as of {commit}")
        for decision in known.values():
            for stream, brought in decision.streams.items():
                there = stream in views and views[stream].end >= brought.end
                if there != (decision.id <= commit):
                    self._fail(f"a view as of {commit} {'shows' if there else 'lacks'} commit {decision.id}")

    def _seen(self, views: Mapping[str, StreamView]) -> dict[str, set[str]]:
        seen: dict[str, set[str]] = {}
        for stream, each in views.items():
            if each.end > each.manifest.next_offset:
                self._fail(f"a view of stream {stream} ends at {each.end}, the state at {each.manifest.next_offset}")
            files = [file for file in each.manifest.files if file.offset < each.end]
            if files and files[-1].end > each.end:
                self._fail(f"a view of stream {stream} ends within file {files[-1].id}")
            seen[stream] = {file.id for file in files}
        return seen

    def _newest(self, stream: str) -> set[str]:
        newest = self.streams[stream].newest
        return {file.id for file in newest.files} if newest else set()

    def _whole(self, run: str, seen: Mapping[str, set[str]], where: str) -> None:
        there = [id in seen.get(stream, ()) for stream, ids in self._files[run].items() for id in ids]
        if any(there) and not all(there):
            self._fail(f"a part of run {run} is in {where}")
        if any(there) and run in self._refused:
            self._fail(f"run {run} is in {where}, and its writer was told that it never will be")

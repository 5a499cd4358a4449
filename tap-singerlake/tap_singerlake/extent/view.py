"""Which part of each stream a run reads: all of them as one view, in which no atomic run is half."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from singerlake.format.state.model import Manifest
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.atomic.view import Means, load_each, offsets_behind, only_what_is_loaded, view, view_as_of
from singerlake.stream import LakeStream
from tap_singerlake.settings import Commits


@dataclass(frozen=True, slots=True)
class Part:
    """The messages of a stream from ``begin`` on, where it has no bookmark, and before ``end``, as offsets in the
    lineage of ``manifest``. None: from where it begins anyway, to its end, as it is when its turn comes."""

    manifest: Manifest | None = None
    begin: int | None = None
    end: int | None = None


def parts_of(
    decisions: Decisions, streams: Sequence[LakeStream], commits: Commits, means: Means = only_what_is_loaded
) -> list[Part]:
    """What a run reads of each of ``streams``, which are of the tap that ``decisions`` are of. Where no commit is
    named, one stream costs no request, and several cost one listing if their tap has no atomic runs. ``means`` is asked
    of streams that were dropped since a commit that is named.

    Raises as ``Lake.snapshot``.
    """
    alone = len(streams) < 2 or not commits.atomic
    if alone and not commits.named:
        return [Part() for _ in streams]

    def load() -> Mapping[str, Manifest]:
        return load_each({stream.name: stream.snapshot for stream in streams}, near=decisions.near)

    ends: dict[str, int] = {}
    if commits.as_of is None and alone:
        states = load()
    else:
        listed = decisions.listed() if commits.as_of is None else None
        if listed is not None and not listed.names and commits.from_commit is None:
            return [Part() for _ in streams]
        if commits.as_of is None:
            views = view(decisions, load, listed)
        else:
            views = view_as_of(decisions, commits.as_of, load, means)
        states = {name: each.manifest for name, each in views.items()}
        ends = {name: each.end for name, each in views.items()}
    begins = {}
    if commits.from_commit is not None:
        begins = offsets_behind(decisions, commits.from_commit, states, means)
    return [Part(states[stream.name], begins.get(stream.name), ends.get(stream.name)) for stream in streams]

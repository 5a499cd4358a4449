"""Ids that are looked for in segments: which segments may have some, and, for one id, which may have it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from operator import itemgetter

from singerlake.format import layout
from singerlake.format.file_id import is_timed
from singerlake.format.state.files.segment import Segment


class WantedIds:
    """Several ids, or paths that end in one."""

    def __init__(self, ids: Iterable[str], *, nameless: bool = False) -> None:
        """``nameless``: something is looked for that has no id, too."""
        every = frozenset(ids)
        self._timed = sorted(filter(is_timed, every))
        self._others = len(self._timed) < len(every)
        self._nameless = nameless

    @staticmethod
    def of_paths(paths: Iterable[str]) -> WantedIds:
        """The ids at the end of ``paths``."""
        ids = [layout.file_id_in(path) for path in paths]
        return WantedIds((id for id in ids if id is not None), nameless=None in ids)

    def may_be_in(self, segment: Segment) -> bool:
        """Whether a file of one of these ids may be in it; False is certain."""
        if self._others and segment.others:
            return True
        if segment.ids is None:
            return False
        at = bisect_left(self._timed, segment.ids[0])
        return at < len(self._timed) and self._timed[at] <= segment.ids[1]

    def may_name_one_in(self, segment: Segment) -> bool:
        """The same of a file at a path that ends in one of them."""
        anything = bool(self._timed) or self._others or self._nameless
        return (anything and segment.misnamed > 0) or self.may_be_in(segment)


class IdRanges:
    """The ids of many segments, so that one id is looked for in few of them."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        timed = [(segment.ids, segment) for segment in segments if segment.ids is not None]
        timed.sort(key=itemgetter(0))
        self._timed = [segment for _, segment in timed]
        self._least = [ids[0] for ids, _ in timed]
        self._greatest = [ids[1] for ids, _ in timed]
        self._until = list(accumulate(self._greatest, max))
        self._others = [segment for segment in segments if segment.others]

    def may_have(self, id: str) -> Iterator[Segment]:
        if not is_timed(id):
            yield from reversed(self._others)
            return
        at = bisect_right(self._least, id)
        while at and self._until[at - 1] >= id:
            at -= 1
            if self._greatest[at] >= id:
                yield self._timed[at]

"""Lists of files for tests: with ids that say when they were made and others, whole and cut into segments at will."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta

from hypothesis import strategies as st

from singerlake.format.file_id import timed_id
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList, Part, Run, touching
from singerlake.format.state.files.segment import Segment, describe
from singerlake.stores.segments.objects import checksum, to_text

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
"""When the first file of a list was made; each other one an hour later."""


class Shelf:
    """Segments in memory; ``read`` are the names of those that were asked for."""

    def __init__(self) -> None:
        self.files: dict[str, Run] = {}
        self.read: list[str] = []

    def keep(self, files: Sequence[DataFile], name: str = "") -> Segment:
        name = name or f"{files[0].offset:020d}-{len(self.files):016d}"
        self.files[name] = AppendOnlyList(files)
        return describe(files, name=name, sha256=checksum(to_text(files)))

    def load(self, segment: Segment) -> Run:
        self.read.append(segment.name)
        return self.files[segment.name]

    def load_each(self, segments: Sequence[Segment], *, stored: bool = False) -> Iterator[Run]:
        del stored
        return map(self.load, segments)

    def touching(self, segment: Segment, start: int, stop: int) -> Run:
        return touching(self.load(segment), start, stop)


def file_at(
    place: int,
    offset: int,
    *,
    messages: int = 1,
    timed: bool = True,
    own_path: bool = True,
    version: str = "v",
    rows: int = 0,
    first: str = "",
) -> DataFile:
    """The file at a place of a list. ``own_path``: its path ends in its id."""
    made = BEGIN + timedelta(hours=place)
    id = timed_id(made, f"{place:016d}") if timed else f"{place:016d}"
    name = id if own_path else f"{place + 1_000_000:016d}"
    time = first or f"{made:%Y-%m-%dT%H:%M:%S.%fZ}"
    return DataFile(
        id=id,
        path=f"{version}/s-{name}.singer.gz",
        version=version,
        messages=messages,
        records=messages,
        bytes=10 * messages + place,
        raw_bytes=100 * messages,
        sha256=f"{place:064d}",
        first=time,
        last=time,
        members=((0, messages),),
        attached=tuple(
            Attached(row, "photo", None, f"{place:064x}", 7, "image/jpeg", 1) for row in range(min(rows, messages))
        ),
        offset=offset,
    )


@st.composite
def lists_of_files(draw: st.DrawFn, *, least: int = 0, most: int = 14) -> list[DataFile]:
    """Neighbouring files from an offset on."""
    files: list[DataFile] = []
    offset = draw(st.sampled_from((0, 0, 7)))
    for place in range(draw(st.integers(least, most))):
        file = file_at(
            place,
            offset,
            messages=draw(st.integers(1, 3)),
            timed=draw(st.sampled_from((True, True, False))),
            own_path=draw(st.sampled_from((True, True, False))),
            version=draw(st.sampled_from("vw")),
            rows=draw(st.sampled_from((0, 0, 1))),
            first=draw(st.sampled_from(("", "", "2026-01-01", "soon"))),
        )
        files.append(file)
        offset = file.end
    return files


@st.composite
def cut_lists(draw: st.DrawFn) -> tuple[list[DataFile], FileList, Shelf]:
    """The same files plain, and cut: some parts are segments on a shelf, some are at hand."""
    files = draw(lists_of_files())
    shelf = Shelf()
    cuts = sorted(draw(st.sets(st.integers(1, max(len(files) - 1, 1)), max_size=5)) if len(files) > 1 else ())
    runs = [files[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(files)], strict=True)]
    tail = runs.pop() if draw(st.booleans()) else []
    parts: list[Part] = [
        shelf.keep(run) if draw(st.sampled_from((True, True, False))) else AppendOnlyList(run) for run in runs if run
    ]
    return files, FileList(tail, parts=parts, source=shelf), shelf

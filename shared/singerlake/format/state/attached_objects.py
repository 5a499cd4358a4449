"""The objects of attached files in a state: listed with a data file that has a row of them, else retired. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from singerlake.format import layout
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.attached import Attached, objects_of, shifted
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.model import Retired


class HasRows(Protocol):
    """What has rows of attached files."""

    @property
    def attached(self) -> tuple[Attached, ...]:
        """These."""


def objects_in(files: Iterable[HasRows]) -> dict[str, str]:
    """The objects of which ``files`` have rows: name -> path relative to the stream's folder."""
    return objects_of(row for file in _having_rows(files) for row in file.attached)


def paths_in(files: Iterable[NewFile]) -> set[str]:
    """The paths of those."""
    return set(objects_in(files).values())


def going(retired: AppendOnlyList[Retired], files: Iterable[HasRows]) -> list[str]:
    """The names of objects of which ``files`` have rows and whose deletion is agreed on."""
    known = ((name, retired.by_id.get(name)) for name in objects_in(files))
    return [name for name, file in known if file is not None and file.deleted is not None]


def listed_again(retired: AppendOnlyList[Retired], files: Iterable[NewFile]) -> AppendOnlyList[Retired]:
    """``retired`` without the objects of which ``files`` have rows."""
    back = {name for name in objects_in(files) if name in retired.by_id}
    return AppendOnlyList(file for file in retired if file.id not in back) if back else retired


def left_behind(gone: Iterable[HasRows], files: Iterable[NewFile], since: str) -> list[Retired]:
    """The objects of which ``gone`` have rows and none of ``files`` has, as retired since then."""
    lost = objects_in(gone)
    for file in _having_rows(files) if lost else ():
        if not lost:
            break
        for name in objects_of(file.attached):
            lost.pop(name, None)
    return [Retired(id=name, path=path, by=None, since=since) for name, path in lost.items()]


def still_retired(retired: Iterable[Retired], files: Iterable[NewFile]) -> list[Retired]:
    """The objects among ``retired`` of which ``files`` have no rows."""
    objects = [file for file in retired if layout.attached_name_in(file.path) is not None]
    listed = objects_in(files) if objects else {}
    return [file for file in objects if file.id not in listed]


def same_rows(before: Sequence[NewFile], after: Sequence[NewFile]) -> bool:
    """Whether two runs of files with the same messages have the same rows."""
    return rows_in_a_row(before) == rows_in_a_row(after)


def fewer_rows(before: Sequence[NewFile], after: Sequence[NewFile]) -> bool:
    """Whether ``after`` has rows of ``before`` alone, in the same order."""
    rest = iter(rows_in_a_row(before))
    return all(row in rest for row in rows_in_a_row(after))


def rows_in_a_row(files: Iterable[NewFile]) -> tuple[Attached, ...]:
    """The rows of neighbouring files, with messages counted from the first one of the first file."""
    rows: list[Attached] = []
    begin = 0
    for file in files:
        rows += shifted(file.attached, begin)
        begin += file.messages
    return tuple(rows)


def _having_rows(files: Iterable[HasRows]) -> Iterable[HasRows]:
    """``files``, without segments that have no rows."""
    return files.with_rows() if isinstance(files, FileList) else files

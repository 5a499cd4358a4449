"""The column of attached files: of each row the files that are attached to its record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from singerlake.format.state.attached import Attached

if TYPE_CHECKING:
    import pyarrow as pa

Files: TypeAlias = Mapping[int, Sequence[Mapping[str, "str | int | None"]]]
"""The values of the column by the offset of their record, of those that are not empty."""


def files_by_offset(rows: Iterable[Attached], begin: int, folder: str) -> Files:
    """The files that ``rows`` tell of, of a data file whose first message has the offset ``begin``. ``folder`` is the
    URL or path of the stream's folder, with a slash at its end."""
    found: dict[int, list[Mapping[str, str | int | None]]] = {}
    for row in rows:
        path = row.path()
        found.setdefault(begin + row.message, []).append(
            {
                "property": _text(row.property),
                "source": _text(row.source),
                "sha256": row.sha256,
                "bytes": row.bytes,
                "media_type": _text(row.media_type),
                "path": None if path is None else folder + path,
            }
        )
    return found


def files_array(offsets: Sequence[int], files: Files, arrow: pa.DataType) -> pa.Array:
    """The column of the rows with these ``offsets``; never null."""
    import pyarrow as pa

    if not files:
        return pa.array([[]] * len(offsets), arrow)
    return pa.array([files.get(offset, ()) for offset in offsets], arrow)


def _text(text: str | None) -> str | None:
    """``text`` with a question mark for each lone surrogate, which JSON can carry and no engine."""
    return text if text is None or text.isascii() else text.encode(errors="replace").decode()

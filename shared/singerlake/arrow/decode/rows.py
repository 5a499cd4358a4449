"""The rows of a chunk of lines before they are arrays: where the records lie, what they lost, and their files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from singerlake.arrow.values.values import Lost
from singerlake.format.state.attached import Attached

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(slots=True)
class Rows:
    """``records`` and their ``offsets``, in order. ``messages`` counts what holds an offset: ACTIVATE_VERSION messages
    do, and are rows only where they are asked for; SCHEMA messages do not. ``lost`` says, by row, what did not fit.
    ``declared``: no record holds what no schema declares."""

    records: Sequence[Any]
    offsets: Sequence[int]
    messages: int
    lost: dict[int, list[Lost]] = field(default_factory=dict)
    declared: bool = False
    envelopes: Sequence[Any] = ()
    _lines: Sequence[int] | None = None
    """Which line of the chunk each row is; None: the row's own number, from ``_skipped`` on."""
    _skipped: int = 0
    _split: list[bytes] | None = None

    def __len__(self) -> int:
        return len(self.records)

    @classmethod
    def of(
        cls,
        messages: Sequence[Any],
        offsets: Sequence[int],
        lost: dict[int, list[Lost]] | None = None,
        *,
        blank: Any = None,
    ) -> Rows:
        """The rows among decoded messages, one of each line, whose ``record`` is None for an ACTIVATE_VERSION and False
        for a SCHEMA. ``offsets`` are those of all but SCHEMA messages; there may be more. ``lost`` is by line. With
        ``blank``, which stands for their records, ACTIVATE_VERSION messages are rows too."""
        records = [message.record for message in messages]
        if all(records):
            return cls(records, offsets[: len(records)], len(records), lost or {}, envelopes=messages)
        positions, chosen, count = [], [], 0
        for position, record in enumerate(records):
            if record is False:
                continue
            if record is not None or blank is not None:
                positions.append(position)
                chosen.append(offsets[count])
            count += 1
        row_of = {position: row for row, position in enumerate(positions)}
        return cls(
            [blank if records[position] is None else records[position] for position in positions],
            chosen,
            count,
            {row_of[position]: each for position, each in (lost or {}).items()},
            envelopes=[messages[position] for position in positions],
            _lines=positions,
        )

    def between(self, begin: int, end: int) -> Rows:
        return Rows(
            self.records[begin:end],
            self.offsets[begin:end],
            self.messages,
            {row - begin: each for row, each in self.lost.items() if begin <= row < end},
            self.declared,
            self.envelopes[begin:end],
            None if self._lines is None else self._lines[begin:end],
            self._skipped + begin,
        )

    def is_record(self, row: int) -> bool:
        return self.envelopes[row].record is not None

    def line(self, data: bytes, row: int) -> bytes:
        """The line of the chunk that a row came from."""
        if self._split is None:
            self._split = data.split(b"\n")
        return self._split[self._skipped + row if self._lines is None else self._lines[row]]


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

"""What a table asks of a file format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from singerlake.errors import BrokenFileError

if TYPE_CHECKING:
    import pyarrow as pa


class FileFormat(Protocol):
    """Writes the rows of a table as one file. ``extension`` ends its names."""

    extension: str

    @property
    def readable(self) -> bool:
        """Whether ``read`` gives back exactly what was written. A table in another format keeps a copy that does."""
        ...

    def write(self, rows: pa.Table, path: Path) -> None:
        """Write a new file at ``path``, whole. Raises ``OSError``."""
        ...

    def read(self, file: BinaryIO, size: int, columns: Sequence[str] | None) -> pa.Table:
        """The rows of a file of ``size`` bytes, of all ``columns`` that it has (None: all), in their order. Raises
        ``BrokenFileError`` where it is none."""
        ...


def existing(columns: Sequence[str] | None, there: Iterable[str]) -> list[str] | None:
    """Of the ``columns`` asked for those that a file has."""
    if columns is None:
        return None
    names = set(there)
    return [name for name in columns if name in names]


def not_read(extension: str) -> BrokenFileError:
    """The error of a format whose files are never read: a table keeps its rows beside them."""
    return BrokenFileError(
        f"rows are not read from {extension} files", hint="run 'singerlake project run --full-refresh'"
    )

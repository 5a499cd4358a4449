"""The paths of the files that a state lists, and which of them a listing of storage has shown."""

from __future__ import annotations

from collections.abc import Callable

from singerlake.scratch.database import ScratchDatabase, to_raw

_WITH_PATH = "FROM paths WHERE path = ?"


class ListedPaths:
    """Paths, each with its file's size in bytes and a digest of what the state says of it. Every method may raise what
    ``ScratchDatabase`` raises."""

    def __init__(self) -> None:
        self._rows = ScratchDatabase(
            "the paths that a state lists",
            ["CREATE TABLE paths (path BLOB, size TEXT, said BLOB, shown INTEGER, stamp BLOB)"],
            ["CREATE INDEX by_path ON paths (path)"],
        )

    def add(self, path: str, size: int = 0, said: bytes = b"") -> None:
        """One more path. A damaged state may list one twice."""
        # A state may say numbers that SQLite does not have.
        self._rows.add("paths", (to_raw(path), str(size), said, 0, None))

    def size(self, path: str) -> int | None:
        """The size of a listed file, the greatest where it is listed twice; None of one that is not listed."""
        found = self._rows.all(f"SELECT size {_WITH_PATH}", (to_raw(path),))
        return max((int(listed) for (listed,) in found), default=None)

    def show(self, path: str, stamp: Callable[[bytes], bytes] | None = None) -> bool:
        """A listing of storage shows a path; False where it is not listed. ``stamp`` is given what is said of its file,
        and gives a stamp of both."""
        raw, made = to_raw(path), None
        if stamp is not None:
            said = self._rows.all(f"SELECT said {_WITH_PATH}", (raw,))
            # Of one that is listed twice, nobody can tell what is said.
            made = stamp(said[0][0]) if len(said) == 1 else None
        return self._rows.change("UPDATE paths SET shown = 1, stamp = ? WHERE path = ?", (made, raw)) > 0

    def is_shown(self, path: str) -> bool:
        """Whether a path is listed, and a listing of storage has shown it."""
        return self._rows.first(f"SELECT 1 {_WITH_PATH} AND shown", (to_raw(path),)) is not None

    def stamp(self, path: str) -> bytes | None:
        """The stamp that was made of a path; None where none was."""
        found = self._rows.first(f"SELECT stamp {_WITH_PATH}", (to_raw(path),))
        return found[0] if found else None

    @property
    def all_shown(self) -> bool:
        """Whether a listing of storage has shown each of them."""
        return self._rows.first("SELECT 1 FROM paths WHERE NOT shown LIMIT 1") is None

    def __contains__(self, path: str) -> bool:
        return self._rows.first(f"SELECT 1 {_WITH_PATH}", (to_raw(path),)) is not None

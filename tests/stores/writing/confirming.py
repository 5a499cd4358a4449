"""What happens before and behind the look for the files of a commit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from singerlake.format.state.files.data_file import NewFile
from singerlake.stores.writer import StreamWriter

Note = Callable[[Sequence[NewFile]], object]


def on_confirm(
    monkeypatch: pytest.MonkeyPatch, *, before: Note = lambda _: None, behind: Note = lambda _: None
) -> None:
    """Have ``before`` called when a writer begins to look for files, and ``behind`` when it has found them."""
    confirming = StreamWriter.confirming

    @contextmanager
    def noting(self: StreamWriter) -> Iterator[Callable[[Sequence[NewFile]], None]]:
        found: list[Sequence[NewFile]] = []
        with confirming(self) as confirm:

            def noted(files: Sequence[NewFile]) -> None:
                before(files)
                confirm(files)
                found.append(files)

            yield noted
        for files in found:
            behind(files)

    monkeypatch.setattr(StreamWriter, "confirming", noting)

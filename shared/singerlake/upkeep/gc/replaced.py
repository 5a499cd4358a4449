"""Where the messages of a replaced file are now: over the files that were replaced in turn."""

from __future__ import annotations

from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest, Retired


class Replaced:
    """The retired files of a state, and those that replaced them; ``listed`` are the listed ones among both, by id."""

    def __init__(self, manifest: Manifest) -> None:
        self._retired = manifest.retired_by_id
        ids = {id for file in manifest.retired for id in (file.id, file.by) if id is not None}
        self.listed = manifest.files.with_ids(ids)

    def holder_of(self, file: Retired) -> DataFile | None:
        """The listed file that holds a replaced file's messages now, found over files that were replaced in turn; None
        where the way leads to none."""
        end = self.end_of(file)
        return self.listed.get(end) if end is not None else None

    def is_stuck(self, file: Retired) -> bool:
        """Whether the way of a replaced file leads nowhere: neither to a listed file nor to one whose messages
        expired."""
        end = self.end_of(file)
        return end is None or not (end in self.listed or end in self._retired)

    def end_of(self, file: Retired) -> str | None:
        """The id at which a retired file's way over files that were replaced in turn ends; None where it goes round."""
        seen: set[str] = set()
        id, by = file.id, file.by
        while by is not None:
            if id in seen:
                return None
            seen.add(id)
            id = by
            before = None if id in self.listed else self._retired.get(id)
            by = before.by if before else None
        return id

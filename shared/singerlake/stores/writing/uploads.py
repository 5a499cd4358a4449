"""What a stream's writer takes, and what it gives for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.format.state.transactions import AddFiles, Change
from singerlake.stores.commit import Commit


@dataclass(frozen=True, slots=True)
class Upload:
    """One finished file: where it is spooled (it may be gone, if it was uploaded), what it is, and its schema."""

    spool: Path
    file: NewFile
    schema: StreamSchema


@dataclass
class Receipt:
    """One change that was committed: ``manifest`` is a state that holds it, None until that is settled."""

    change: Change
    commit: Commit
    manifest: Manifest | None = None

    @property
    def files(self) -> tuple[NewFile, ...]:
        """The files that it adds."""
        return self.change.files if isinstance(self.change, AddFiles) else ()

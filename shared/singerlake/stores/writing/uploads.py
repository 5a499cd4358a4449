"""What a stream's writer takes, and what it gives for it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.format.state.transactions import Change
from singerlake.stores.port import Pending


@dataclass(frozen=True, slots=True)
class Upload:
    """One finished file: where it is spooled (it may be gone, if it was uploaded), what it is, and its schema."""

    spool: Path
    file: NewFile
    schema: StreamSchema


@dataclass
class Receipt:
    """What became of one commit: ``manifest`` is a state that holds its files, None until that is settled."""

    files: tuple[NewFile, ...]
    change: Change
    pending: Pending | None = None
    manifest: Manifest | None = None

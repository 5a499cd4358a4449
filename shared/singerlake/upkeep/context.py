"""What all upkeep works with: of one stream, and of a lake."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from singerlake.clock import Clock, IdSource
from singerlake.errors import LostStateError
from singerlake.format.metadata.root import RootMetadata
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage
from singerlake.stores.history import stream_closed
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded, ManifestStore
from singerlake.stores.shared_states import read_manifest
from singerlake.upkeep.rebuild.survey import has_data_files


@dataclass(frozen=True, slots=True)
class StreamContext(StreamPlace):
    """One stream, with the manifest store that keeps its state."""

    store: ManifestStore

    def load(self) -> Loaded | None:
        """The stream's state; None where it has neither a state nor a data file. Raises ``LostStateError`` where it has
        data files alone, ``StreamClosedError`` where the stream is still being moved to this store, and what the
        store raises."""
        loaded = self.store.load()
        if loaded is not None or not has_data_files(self.storage, self.tap, self.stream):
            return loaded
        coming = self._is_coming()
        # The stream may have been born, or may have come, between the two looks.
        loaded = self.store.load()
        if loaded is None and coming:
            raise stream_closed(self.tap, self.stream, self.store.kind)
        if loaded is None:
            raise LostStateError(
                "the stream has data files and no state",
                hint="run 'singerlake rebuild' first",
                tap=self.tap,
                stream=self.stream,
            )
        return loaded

    def _is_coming(self) -> bool:
        """Whether a migration to this store has begun: ``manifest.json`` has the state that the other store closed."""
        stored = self.storage.get(self.manifest_key)
        if stored is None:
            return False
        return read_manifest(stored.body, key=self.manifest_key, storage=self.storage).closed == self.store.kind


class UpkeptStream(Protocol):
    """A stream as upkeep of many sees it; ``singerlake.LakeStream`` is one."""

    def state(self) -> Manifest | None:
        """The newest state; None where there is none. Raises ``LakeError``."""
        ...

    def snapshot(self) -> Manifest:
        """The same, or where it is missing one from the data files. Raises ``LakeError``, ``UnknownNameError``."""
        ...

    def kind(self) -> str | None:
        """The manifest store that keeps it; None where it has no state. Raises as ``state``."""
        ...

    def context(self, kind: str | None = None) -> StreamContext:
        """What upkeep of it works with, with the manifest store of that kind or (None) the one that keeps it. Raises
        what opening the store raises."""
        ...


class LakeContext(Protocol):
    """A lake as upkeep of many streams sees it; ``singerlake.Lake`` is one."""

    @property
    def storage(self) -> Storage: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def ids(self) -> IdSource: ...

    def root_metadata(self) -> RootMetadata | None:
        """What ``singerlake.json`` or its copy says. Raises ``LakeError``."""
        ...

    def lake_id(self) -> str:
        """The lake's identity, which is written where there is none. Raises ``LostStateError``."""
        ...

    def known_lake_id(self) -> str | None:
        """The same, but nothing is written."""
        ...

    def chosen_taps(self, tap: str | None) -> list[str]:
        """The taps that the name means, all for None. Raises ``UnknownNameError``."""
        ...

    def existing_streams(self, tap: str) -> list[str]:
        """The streams of a tap that is there. Raises ``UnknownNameError``."""
        ...

    def chosen(self, tap: str | None, stream: str | None) -> list[tuple[str, str]]:
        """The ``(tap, stream)`` pairs that the names mean. Raises ``SettingError``, ``UnknownNameError``."""
        ...

    def tables_from(self, tap: str) -> Mapping[str, tuple[str, ...]]:
        """The names of the tables that are made from each stream of a tap. Raises what storage raises."""
        ...

    def stream(self, tap: str, name: str) -> UpkeptStream:
        """One stream, whether or not it has data."""
        ...


def lake_id_for(lake: LakeContext, dry_run: bool) -> str:
    """The lake's id; what a dry run gives where there is none yet is no lake's."""
    return lake.known_lake_id() or lake.ids() if dry_run else lake.lake_id()

"""What all maintenance of one stream works with."""

from __future__ import annotations

from dataclasses import dataclass

from singerlake.errors import LostStateError
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

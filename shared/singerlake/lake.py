"""The lake as a whole: the public object."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from singerlake.adapters import DEFAULT_STORE, MANIFEST_STORES, ON_THE_LAKE, open_storage, open_store
from singerlake.clock import Clock, IdSource, SystemClock, random_id, timestamp
from singerlake.errors import (
    ForeignManifestError,
    LostBookmarkError,
    MissingFileError,
    NotALakeError,
    SettingError,
    UnknownNameError,
)
from singerlake.format import catalogue, layout, root
from singerlake.format.state import fold
from singerlake.format.state.bookmark import Bookmark, resume
from singerlake.format.state.manifest import check_own, from_json
from singerlake.format.state.model import DataFile, Manifest
from singerlake.format.state.selection import Slice
from singerlake.lock import LockSettings
from singerlake.maintenance.catalogue_file import CatalogueFile
from singerlake.maintenance.engines.engine import Engine, Threads
from singerlake.maintenance.rebuild.caches import use_manifest_store
from singerlake.maintenance.rebuild.rebuild import rebuild_manifest
from singerlake.maintenance.root_file import RootFile
from singerlake.manifests.find_store import logged_kind, store_of
from singerlake.manifests.place import StreamPlace
from singerlake.manifests.port import ManifestStore
from singerlake.manifests.writer import StreamWriter
from singerlake.projections.state.commit import tables as table_names
from singerlake.settings import StoreSettings
from singerlake.singer_file import Block, Provenance, read_blocks, read_provenance
from singerlake.storage.port import Storage

if TYPE_CHECKING:
    import pyarrow as pa

    from singerlake.projections.read import LakeTable
    from singerlake.projections.run.run import TableRunner
    from singerlake.storage.s3.storage import S3Settings

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Lake:
    """Taps, streams and their metadata on one storage. Cheap to make; nothing is read before it is asked for."""

    storage: Storage
    clock: Clock = field(default_factory=SystemClock)
    ids: IdSource = random_id
    stores: StoreSettings = field(default_factory=StoreSettings)
    s3: S3Settings | None = None
    _root: RootFile = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_root", RootFile(self.storage, self.ids))

    @classmethod
    def open(cls, lake_root: str, settings: S3Settings | None = None, stores: StoreSettings | None = None) -> Lake:
        """The lake at a path, ``file://`` or ``s3://`` root. ``stores`` is for writers, and for readers of databases;
        what is on the lake needs none. Raises ``SettingError``."""
        return cls(open_storage(lake_root, settings), stores=stores or StoreSettings(), s3=settings)

    def exists(self) -> bool:
        """Whether anything of a lake is there: root metadata, or any folder below ``raw/``."""
        return self._root.read() is not None or bool(self.storage.list_folder(f"{layout.RAW}/").folders)

    def require(self) -> Lake:
        """This lake, if there is one. Raises ``NotALakeError``."""
        if not self.exists():
            raise NotALakeError(
                "nothing here is a lake", hint="check lake_root; a lake has a folder 'raw'", lake_root=self.storage.url
            )
        return self

    def root_metadata(self) -> root.RootMetadata | None:
        """What ``singerlake.json`` says; None where there is none. Raises ``CorruptObjectError``,
        ``UnsupportedFormatError``."""
        return self._root.read()

    def lake_id(self, manifest_store: str | None = None) -> str:
        """The lake's identity, by which databases know it. Where there is no root metadata it is written, with the id
        that the streams name, or a new one where none does. ``manifest_store``: what streams not yet born will get;
        None: what the others have. Raises ``LostStateError`` where the streams name several."""
        return self._root.lake_id(manifest_store, default_kind=DEFAULT_STORE)

    def known_lake_id(self) -> str | None:
        """The identity for readers: what root metadata or else the streams say; nothing is written."""
        return self._root.known_id()

    def tables(self) -> list[str]:
        """Names of the tables that runs of ``singerlake project`` made or began."""
        return table_names(self.storage)

    def table(self, name: str) -> LakeTable:
        """A table as it is now. Raises ``UnknownNameError`` listing those that are there. Needs
        ``pip install 'singerlake[arrow]'``."""
        from singerlake.projections.read import LakeTable

        return LakeTable.load(self.storage, name)

    def table_runner(self, engine: Callable[[int], Engine] | None = None) -> TableRunner:
        """What brings tables up to their streams. ``engine`` gives what runs tasks on about so many bytes; None:
        threads of this process."""
        from singerlake.projections.run.run import TableRunner

        return TableRunner(
            self.storage,
            self.lake_id,
            # Only a stream without a state is looked for in the tap's listing, which grows with every stream.
            lambda tap, stream: self.stream(tap, stream).state() or self.existing_stream(tap, stream).snapshot(),
            engine or (lambda _: Threads(self.storage)),
            self.clock,
            self.ids,
        )

    def is_unborn(self) -> bool:
        """Whether nothing of any stream is there yet. A stream without a state may have one in a database."""
        return not any(self.streams(tap) for tap in self.taps())

    def taps(self) -> list[str]:
        """Tap ids by one delimiter listing, so that no lost update of a cache can hide one."""
        return self._names(f"{layout.RAW}/")

    def streams(self, tap: str) -> list[str]:
        """Stream names of a tap, likewise."""
        return self._names(layout.tap_prefix(tap))

    def stream(self, tap: str, name: str) -> LakeStream:
        """One stream, whether or not it has data. Raises ``NameTooLongError``, ``SettingError``."""
        return LakeStream(self, tap, name)

    def existing_streams(self, tap: str) -> list[str]:
        """Stream names of a tap that is there. Raises ``UnknownNameError``, which lists the taps."""
        known_taps = self.taps()
        if tap not in known_taps:
            raise UnknownNameError(f"no tap {tap!r} in this lake", hint=_known(known_taps), lake_root=self.storage.url)
        return self.streams(tap)

    def existing_stream(self, tap: str, name: str) -> LakeStream:
        """One stream that is there. Raises ``UnknownNameError``, which lists those that are."""
        known = self.existing_streams(tap)
        if name not in known:
            raise UnknownNameError(
                f"tap {tap!r} has no stream {name!r}", hint=_known(known), lake_root=self.storage.url
            )
        return LakeStream(self, tap, name)

    def catalogue(self, tap: str) -> dict[str, Any]:
        """The tap's Singer Catalog: ``catalogue.json`` joined with a listing, so that a stream whose entry was lost to
        a race is read from its manifest, and one whose folder is gone is left out, as are streams without a version. An
        entry is of the stream's newest version (``selection.newest_version``), and may be behind during a run. A
        catalogue that cannot be read counts as none."""
        cached = CatalogueFile(self.storage, tap).entries()
        entries = []
        for name in self.streams(tap):
            entry = cached.get(name) or catalogue.entry(self.stream(tap, name).snapshot())
            if entry is not None:
                entries.append(entry)
        return {"streams": entries}

    def catalogued(self, tap: str) -> frozenset[str]:
        """Streams that the tap's catalogue knows and whose folder is there, for two requests however many there are:
        each has a version."""
        return frozenset(CatalogueFile(self.storage, tap).entries()).intersection(self.streams(tap))

    def announce(self, *manifests: Manifest) -> None:
        """Bring ``catalogue.json`` and ``singerlake.json`` up to what streams' manifests say, those of one tap in one
        write. Both are caches of what the streams hold: a lost race leaves them behind, never wrong, and is not an
        error."""
        for tap in dict.fromkeys(manifest.tap for manifest in manifests):
            own = [manifest for manifest in manifests if manifest.tap == tap]
            fresh = [entry for entry in map(catalogue.entry, own) if entry is not None]
            if fresh:
                CatalogueFile(self.storage, tap).update(fresh)
            self.lake_id(own[-1].store)
            self._root.add_tap(tap)

    def _names(self, prefix: str) -> list[str]:
        names = (layout.from_segment(folder.rstrip("/")) for folder in self.storage.list_folder(prefix).folders)
        return sorted(name for name in names if name is not None)


def _known(names: list[str]) -> str:
    return f"it has: {', '.join(names)}" if names else "it has none yet"


@dataclass(frozen=True)
class LakeStream:
    """One stream of one tap: an ordered log of messages in files."""

    lake: Lake
    tap: str
    name: str

    def __post_init__(self) -> None:
        layout.stream_prefix(self.tap, self.name)

    @property
    def prefix(self) -> str:
        """The key prefix that paths in the manifest are relative to; ends in ``/``."""
        return layout.stream_prefix(self.tap, self.name)

    def snapshot(self) -> Manifest:
        """The stream's state as it is now. Where it is missing but files are there, one is rebuilt in memory, which a
        warning says; its lineage is None. Raises ``CorruptObjectError``, ``UnsupportedFormatError``,
        ``ForeignManifestError``."""
        state = self.state()
        if state is not None:
            return state
        key = layout.manifest_key(self.tap, self.name)
        logger.warning("no manifest at %s: reading the data files instead; 'singerlake rebuild' writes it again", key)
        return self.rebuilt(lineage=None)

    def state(self) -> Manifest | None:
        """The newest state that the lake itself holds: ``manifest.json``, and in the stores that keep their log on the
        lake what came after it. None where there is none. Raises as ``snapshot``."""
        return self._state_in(self.kind())

    def _state_in(self, kind: str | None, *tried: str) -> Manifest | None:
        key = layout.manifest_key(self.tap, self.name)
        if kind in ON_THE_LAKE and kind != DEFAULT_STORE:
            try:
                loaded = self.store(kind).load()
            except ForeignManifestError:
                # It may have moved to another store just now, or an older manifest.json was put back since it did.
                now = self.kind()
                if now == kind:
                    now = logged_kind(self.lake.storage, self.tap, self.name)
                if now in (None, kind, *tried):
                    raise
                return self._state_in(now, kind, *tried)
            if loaded is not None:
                return loaded.manifest
        stored = self.lake.storage.get(key)
        if stored is None:
            return None
        return check_own(from_json(stored.body, key=key), tap=self.tap, stream=self.name, store=None, key=key)

    def kind(self) -> str | None:
        """The manifest store that keeps this stream; None where it has no state on the lake. A state that cannot be
        read is for the store to refuse."""
        return store_of(self.lake.storage, self.tap, self.name, self.lake.root_metadata)

    def rebuilt(self, *, lineage: str | None, store: str = DEFAULT_STORE) -> Manifest:
        """A manifest from the data files alone."""
        birth = fold.empty(
            tap=self.tap,
            stream=self.name,
            store=store,
            lake_id=self.lake._root.seen_id() if lineage else None,
            lineage=lineage,
            created=timestamp(self.lake.clock.now()),
            transaction_id=self.lake.ids(),
        )
        return rebuild_manifest(self.lake.storage, birth).manifest

    def read(self, part: Slice) -> Iterator[Block]:
        """The messages of one slice in blocks of whole lines; a slice that begins inside a member begins exactly
        there. Raises ``MissingFileError``, ``BrokenFileError``."""
        file, member = part.file, part.member
        key = self.prefix + file.path
        start = file.members[member][0] if member else 0
        skip = part.skip - sum(messages for _, messages in file.members[:member])
        with self.lake.storage.open(key, start) as stream:
            for block in read_blocks(stream, file, member=member, key=key):
                if skip >= block.messages:
                    skip -= block.messages
                    continue
                yield block.after(skip) if skip else block
                skip = 0

    def to_arrow(
        self,
        *,
        columns: Sequence[str] | None = None,
        from_version: str | None = None,
        versions: Sequence[str] | None = None,
        from_offset: int | None = None,
        to_offset: int | None = None,
        lineage: str | None = None,
        metadata: bool = False,
        record: bool = False,
        messages: str = "records",
        mode: str = "PERMISSIVE",
    ) -> pa.RecordBatchReader:
        """The stream as it is now, as record batches in offset order, which pandas, Polars and DuckDB take. The options
        mean what they mean to Spark (``docs/how-to/spark.md``). Needs ``pip install 'singerlake[arrow]'``.

        Raises ``SettingError``, ``UnknownNameError``, ``LineageChangedError``; while it is read
        ``ValueDoesNotFitError`` (mode ``FAILFAST``), ``BrokenFileError``, ``MissingFileError`` and what the storage
        raises.
        """
        from singerlake.arrow.plan.request import request_of
        from singerlake.arrow.read import open_reader

        request = request_of(
            columns=columns,
            from_version=from_version,
            versions=versions,
            from_offset=from_offset,
            to_offset=to_offset,
            lineage=lineage,
            metadata=metadata,
            record=record,
            messages=messages,
            mode=mode,
        )
        return open_reader(self.lake.storage, self.snapshot(), request)

    def resume(self, manifest: Manifest, bookmark: Bookmark) -> int:
        """The offset at which a reader with ``bookmark`` continues. Raises ``LostBookmarkError``."""
        try:
            return resume(manifest, bookmark)
        except LostBookmarkError:
            return resume(manifest, bookmark, self._origins(manifest))

    def _origins(self, manifest: Manifest) -> Iterator[tuple[str, int, str]]:
        """What vacuumed files say they replaced, without files that hold other messages than they say."""
        for file in manifest.files:
            try:
                provenance = self.provenance(file)
            except MissingFileError:
                continue
            if provenance is None or sum(count for _, count in provenance.replaces) != file.messages:
                continue
            offset = file.offset
            for original, messages in provenance.replaces:
                yield original, offset, file.id
                offset += messages
            for between, before in provenance.through:
                yield between, file.offset + before, file.id

    def provenance(self, file: DataFile) -> Provenance | None:
        """Which files a vacuumed file replaced; None for a file that a target wrote. Raises ``MissingFileError``."""
        first_member = file.members[0][0] if file.members else file.bytes
        return read_provenance(self.lake.storage.read_range(self.prefix + file.path, 0, first_member))

    def writer(self, *, writer_id: str, store: str | None = None, lock: LockSettings | None = None) -> StreamWriter:
        """A writer to this stream. ``store`` is the manifest store's kind, or None for the one the lake has.
        Raises ``SettingError`` where it is not the lake's."""
        kind = self._chosen(store)
        if kind not in MANIFEST_STORES:
            # Before anything is written, this says which there are.
            self.store(kind)
        lake_id = self.lake.lake_id(kind)
        return StreamWriter(
            storage=self.lake.storage,
            store=self.store(kind),
            tap=self.tap,
            stream=self.name,
            writer_id=writer_id,
            lock=lock or LockSettings(),
            rebuild=lambda kind: self.rebuilt(lineage=self.lake.ids(), store=kind),
            clock=self.lake.clock,
            ids=self.lake.ids,
            successor=self.store,
            lake_id=lake_id,
        )

    def store(self, kind: str | None = None) -> ManifestStore:
        """The manifest store of that kind for this stream, or (None) the one that keeps it. Raises ``SettingError``."""
        lake = self.lake
        return open_store(
            kind or self._chosen(None),
            StreamPlace(lake.storage, self.tap, self.name, lake.clock, lake.ids),
            settings=lake.stores,
            s3=lake.s3,
            lake_id=lambda: lake.known_lake_id() or lake._root.fresh_id(),
            known_lake_id=lake._root.seen_id(),
        )

    def _chosen(self, kind: str | None) -> str:
        """The kind of store for a writer that was told ``kind``: a stream that has a state stays where it is."""
        metadata = self.lake.root_metadata()
        recorded = metadata.manifest_store if metadata else None
        if kind is not None and recorded is not None and kind != recorded and not self.lake.is_unborn():
            raise SettingError(
                f"manifest_store is {kind!r}, this lake's is {recorded!r}",
                hint="leave manifest_store unset, or use another lake_root",
                lake_root=self.lake.storage.url,
            )
        own = self.kind()
        if kind is not None and recorded is None and own is not None and kind != own:
            raise SettingError(
                f"manifest_store is {kind!r}, this stream's is {own!r}",
                hint="leave manifest_store unset, or move the stream with 'singerlake store migrate'",
                lake_root=self.lake.storage.url,
            )
        if kind is not None and recorded is not None and kind != recorded:
            # A first run with that other kind got no further than this, as where storage cannot keep it.
            use_manifest_store(self.lake.storage, kind, lake_id=self.lake.lake_id())
        return own or kind or recorded or DEFAULT_STORE

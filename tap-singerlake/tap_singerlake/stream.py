"""One stream of the lake as the SDK sees it, with a synchronisation of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from typing import Any

import msgspec
from singer_sdk import Stream, Tap
from singer_sdk.mapper import RemoveRecordTransform, SameRecordTransform, StreamMap
from singer_sdk.singerlib import Catalog, CatalogEntry
from singer_sdk.singerlib.json import deserialize_json

from singerlake.clock import random_id
from singerlake.errors import LakeError, UnknownNameError
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.model import Manifest, SchemaVersion
from singerlake.format.state.selection import resolve_version
from singerlake.stream import LakeStream
from singerlake.upkeep.scan import schema_before
from singerlake.work.ahead import ahead
from tap_singerlake import settings
from tap_singerlake.batch.output import Batches, BatchOutput, DirectOutput
from tap_singerlake.catalog.catalog import Overrides, StoredSchema, discovered
from tap_singerlake.catalog.columns import replayed, shown, unknown
from tap_singerlake.conversion import Conversion, Mapped, Passthrough, Sequenced, register
from tap_singerlake.extent import Extent, bookmark_in
from tap_singerlake.files import Destination, FileCopies, Noting
from tap_singerlake.replay import MessageBlock, Reader, Replay, size_of


class ReplayedStream(Stream):
    """Replays one stream from its bookmark on.

    Everything between storage and standard output goes by the block; the SDK's road for single records is taken only
    where the configuration or the catalog asks for a change to them.
    """

    def __init__(
        self,
        tap: Tap,
        entry: Mapping[str, Any],
        stream: LakeStream,
        write: Callable[[bytes | memoryview], None],
        state: Manifest | None = None,
        batches: Callable[[], Batches | None] = lambda: None,
        files: Callable[[], Destination | None] = lambda: None,
    ) -> None:
        """``state`` is the stream's, if just read. ``batches`` and ``files`` are asked when records are written."""
        self.stored_entry = entry
        self.extent = Extent()
        self._read_before = state
        self._write = write
        self._batches = batches
        self._files = files
        self._stored = StoredSchema(entry.get("schema"))
        self.lake_stream = stream
        self._entry: CatalogEntry | None = None
        super().__init__(tap, schema=self._stored.to_dict(), name=stream.name)
        self.primary_keys = tuple(entry.get("key_properties") or ())
        self.forced_replication_method = "LOG_BASED"

    def apply_catalog(self, catalog: Catalog) -> None:
        """Take selection, keys and replication method from a catalog. There never is a replication key: only an
        offset orders a stream of the lake."""
        self._tap_input_catalog = catalog
        self._entry = catalog.get_stream(self.name)
        if self._entry is None:
            self.logger.warning(
                "stream %r is in the lake but not in the catalog, so it is left out; refresh the catalog "
                "(with Meltano: run --refresh-catalog)",
                self.name,
            )
            return
        self.primary_keys = tuple(self._entry.key_properties or self.primary_keys)
        self.forced_replication_method = self._entry.replication_method

    @property
    def stream_maps(self) -> list[StreamMap]:
        """The stream maps as the mapper now has them. Raises ``SettingError`` and the SDK's own errors."""
        mapper, metadata = self._tap.mapper, self._adds_lake_metadata
        if self.name not in mapper.stream_maps:
            register(mapper, self.name, self.schema, self.primary_keys, self.mask, lake_metadata=metadata)
        return mapper.stream_maps[self.name]

    # Final in the SDK, whose own takes records one by one.
    def sync(self, context: Mapping[str, Any] | None = None) -> None:  # type: ignore[misc]
        """Write what the lake holds from the bookmark on, and STATE messages that say how far that was.

        Raises ``SettingError``, ``UnknownNameError``, ``LostBookmarkError``, ``ExpiredMessagesError``,
        ``LineageChangedError``, ``BrokenFileError``, ``MissingFileError`` and what storage raises, also that of batch
        files and of copied files; the last STATE then stands where everything before it was written.
        """
        if self._is_removed:
            self.logger.info("stream maps remove stream %r: it is not read, and its bookmark stays", self.name)
            return
        extent, self.extent = self.extent, Extent()
        reader = self._reader(extent)
        manifest = extent.manifest or self._snapshot()
        versions = self._versions(manifest, extent)
        self._tell_of_columns(versions)
        to = self._files()
        copies = None if to is None else FileCopies(self.lake_stream, to, random_id)
        conversion = self._conversion(Overrides.between(self._entry, [*manifest.schemas.values(), *versions]), copies)
        every, total = self.config.get("state_every_records") or settings.STATE_EVERY_RECORDS, 0
        with (
            copies or nullcontext(),
            self._output() as output,
            self.get_record_counter() as counter,
            self.get_sync_timer(),
            closing(ahead(reader.events(manifest), size_of, room=output.room)) as events,
        ):

            def checkpoint(bookmark: Bookmark) -> None:
                if copies is not None:
                    copies.settle()
                output.checkpoint(bookmark)

            replay = Replay(
                conversion,
                write=output.write,
                checkpoint=checkpoint,
                every=min(every, output.most),
                limit=self._limit(),
            )
            for records in replay.run(events):
                counter.increment(records)
                total += records
            output.finish()
        self.logger.info("replayed %d records of %r", total, self.name)

    def get_records(self, context: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
        """The records that ``sync`` would write, one by one and unmapped."""
        for event in self._reader(Extent()).events(self._snapshot()):
            if isinstance(event, MessageBlock):
                for line in event.block.data.split(b"\n")[:-1]:
                    message = deserialize_json(line)
                    if message["type"] == "RECORD":
                        yield message["record"]

    def _snapshot(self) -> Manifest:
        """The stream's state: once the one that discovery read, then as it is at the time."""
        state, self._read_before = self._read_before, None
        return self.lake_stream.snapshot() if state is None else state

    def finalize_state_progress_markers(self, state: dict[str, Any] | None = None) -> None:
        """Nothing to promote: a bookmark is final whenever it is written, and the SDK's markers have no part in it."""

    def offered(self) -> dict[str, Any]:
        """The stream as discovery prints it. Raises what storage raises."""
        try:
            manifest = self.extent.manifest or self._snapshot()
        except LakeError as error:
            self.logger.warning("stream %r: columns of older versions are not offered: %s", self.name, error)
            return discovered(self.stored_entry, [])
        return discovered(self.stored_entry, self._versions(manifest, self.extent))

    def asks(self, choice: settings.Choice) -> bool:
        """Whether ``choice`` says anything of what this run replays: ``from_version`` does not where a bookmark is."""
        if not self.is_read or choice.of(self.name) is None:
            return False
        return choice.name != "from_version" or self._bookmark() is None

    def lacks(self, choice: settings.Choice) -> UnknownNameError | None:
        """Why ``choice`` cannot be met; None where it can. Raises what reading the manifest raises."""
        asked, manifest = choice.of(self.name), self._snapshot()
        try:
            for text in (asked,) if isinstance(asked, str) else asked:
                resolve_version(manifest, text)
        except UnknownNameError as error:
            return error
        return None

    def _versions(self, manifest: Manifest, extent: Extent) -> list[SchemaVersion]:
        """The versions to be replayed, that of the newest messages first, with the keys that are in force there."""
        versions = replayed(
            manifest,
            settings.from_version(self.config).of(self.name),
            settings.versions(self.config).of(self.name),
            begin=extent.begin,
            end=extent.end,
        )
        if versions and extent.end is not None and extent.end < manifest.next_offset:
            said = schema_before(self.lake_stream.lake.storage, manifest, extent.end)
            if said is not None and said.schema == versions[0].schema:
                versions[0] = msgspec.structs.replace(
                    versions[0], key_properties=said.key_properties, bookmark_properties=said.bookmark_properties
                )
        return versions

    @property
    def is_read(self) -> bool:
        return self.selected and not self._is_removed

    @property
    def _is_removed(self) -> bool:
        return all(isinstance(one, RemoveRecordTransform) for one in self.stream_maps)

    def _tell_of_columns(self, versions: Sequence[SchemaVersion]) -> None:
        """Say what the catalog's choice of columns does not reach; without a choice there is nothing to be missed."""
        if self._entry is None or all(self.mask.values()):
            return
        catalog = self._entry.schema.json if isinstance(self._entry.schema, StoredSchema) else None
        new = unknown([version.schema for version in versions], catalog, self.metadata)
        if columns := [shown(one) for one in new if self.mask[one]]:
            self.logger.warning(
                "stream %r: the catalog does not know these columns, so they are replayed: %s; refresh the catalog "
                "(with Meltano: run --refresh-catalog) to deselect them",
                self.name,
                _some(columns),
            )
        deselected = (column for column, one in self.metadata.items() if column and one.selected is False)
        if kept := [shown(column) for column in deselected if self.mask[column]]:
            self.logger.warning(
                "stream %r: key properties are always replayed, these too, although the catalog deselects them: %s",
                self.name,
                _some(kept),
            )

    @property
    def _singer_catalog_entry(self) -> CatalogEntry:
        return CatalogEntry(
            tap_stream_id=self.name,
            stream=self.name,
            schema=self._stored,  # type: ignore[arg-type]
            metadata=self.metadata,
            key_properties=list(self.primary_keys),
            replication_method=self.replication_method,
        )

    @property
    def _adds_lake_metadata(self) -> bool:
        return bool(self.config.get("include_lake_metadata"))

    @property
    def _adds_sequence(self) -> bool:
        return bool(self.config.get("sequence"))

    def _reader(self, extent: Extent) -> Reader:
        return Reader(
            self.lake_stream,
            position=self._bookmark(),
            from_version=settings.from_version(self.config).of(self.name),
            versions=settings.versions(self.config).of(self.name),
            skip_expired=bool(self.config.get("skip_expired")),
            begin=extent.begin,
            end=extent.end,
            one_schema=bool(self.config.get("one_schema")),
        )

    def _output(self) -> DirectOutput | BatchOutput:
        batches = self._batches()
        if batches is None:
            return DirectOutput(self._write, self._checkpoint)
        return BatchOutput(batches, self._write, self._checkpoint, random_id)

    def _conversion(self, overrides: Overrides, copies: FileCopies | None) -> Conversion:
        conversion: Conversion = (Sequenced if self._adds_sequence else Passthrough)(overrides)
        if not self._passes_raw(self.stream_maps):
            conversion = Mapped(
                self.name,
                self._tap.mapper,
                self.mask,
                overrides,
                lake_metadata=self._adds_lake_metadata,
                sequence=self._adds_sequence,
                left_out=copies.leave_out if copies is not None else lambda _: None,
            )
        return conversion if copies is None else Noting(conversion, copies)

    def _passes_raw(self, maps: Sequence[StreamMap]) -> bool:
        changed = [one for one in maps if type(one) is not SameRecordTransform or one.flattening_enabled]
        return not changed and len(maps) == 1 and all(self.mask.values()) and not self._adds_lake_metadata

    def _limit(self) -> int | None:
        limits = [limit for limit in (self.config.get("max_records"), self.ABORT_AT_RECORD_COUNT) if limit is not None]
        return min(limits, default=None)

    def _bookmark(self) -> Bookmark | None:
        return None if self.replication_method == "FULL_TABLE" else bookmark_in(self.tap_state, self.name)

    def _checkpoint(self, bookmark: Bookmark) -> None:
        self.tap_state.setdefault("bookmarks", {})[self.name] = msgspec.to_builtins(bookmark)
        self._tap.state_writer.write_state(self.tap_state)


_NAMED = 20


def _some(names: Sequence[str]) -> str:
    """Names for a log: not too many."""
    more = len(names) - _NAMED
    return ", ".join(map(repr, names[:_NAMED])) + (f" and {more} more" if more > 0 else "")

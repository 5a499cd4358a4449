"""``tap-singerlake``: a Singer tap over a lake."""

from __future__ import annotations

import copy
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from types import FrameType
from typing import Any, ClassVar

import simplejson
from singer_sdk import Tap
from singer_sdk.exceptions import ConfigValidationError, MapExpressionError, StreamMapConfigError
from singer_sdk.helpers.capabilities import CapabilitiesEnum, PluginCapabilities, TapCapabilities
from singer_sdk.mapper import PluginMapper
from singer_sdk.singerlib import Catalog

from singerlake.adapters import open_storage
from singerlake.clock import random_id
from singerlake.errors import SettingError, SingerlakeError, UnknownNameError
from singerlake.interpreter.process import make_room
from singerlake.lake import Lake
from singerlake.settings import (
    LAKE_ROOT,
    QUERY_SETTINGS,
    STORAGE_SETTINGS,
    storage_settings,
    store_settings,
    without_effect,
    without_secrets,
)
from singerlake.stores.atomic.decisions import Decisions
from singerlake.upkeep.gc.batch_files import BatchNames
from singerlake.work.parallel import THREADS, in_parallel
from tap_singerlake import settings
from tap_singerlake.batch.output import Batches
from tap_singerlake.batch.settings import batch_config
from tap_singerlake.catalog.catalog import for_singer_sdk
from tap_singerlake.error_settings import place_of
from tap_singerlake.extent import extents_of
from tap_singerlake.files import Destination, destination
from tap_singerlake.output import LineWriter, StateLines
from tap_singerlake.stream import ReplayedStream

_STATE_HINT = "pass the value of the last STATE message"


class TapSingerlake(Tap):
    """Replays what target-singerlake captured, into any Singer target."""

    name = "tap-singerlake"
    package_name = "singerlake"
    dynamic_catalog = True
    message_writer_class = LineWriter
    message_writer: LineWriter

    capabilities: ClassVar[list[CapabilitiesEnum]] = [
        TapCapabilities.CATALOG,
        TapCapabilities.STATE,
        TapCapabilities.DISCOVER,
        TapCapabilities.TEST,
        TapCapabilities.LOG_BASED,
        TapCapabilities.ACTIVATE_VERSION,
        PluginCapabilities.ABOUT,
        PluginCapabilities.STREAM_MAPS,
        PluginCapabilities.FLATTENING,
        PluginCapabilities.BATCH,
        PluginCapabilities.STRUCTURED_LOGGING,
    ]

    config_jsonschema: ClassVar[dict[str, Any]] = {
        "type": "object",
        "properties": {"lake_root": LAKE_ROOT, **settings.PROPERTIES, **QUERY_SETTINGS, **STORAGE_SETTINGS},
        "required": ["lake_root", "tap_id"],
    }

    def __init__(
        self,
        *,
        config: Any = None,
        catalog: Any = None,
        state: Any = None,
        message_writer: LineWriter | None = None,
        **options: Any,
    ) -> None:
        make_room()
        # Signal handlers are set while the SDK's constructor runs, and need the writer.
        self.message_writer = message_writer or LineWriter()
        if isinstance(catalog, Catalog):
            catalog = catalog.to_dict()
        if state is not None and not isinstance(state, dict):
            raise SettingError("the state is not an object", hint=_STATE_HINT)
        super().__init__(
            config=settings.normalised(config) if isinstance(config, Mapping) else config,
            catalog=None if catalog is None else for_singer_sdk(catalog),
            state=state,
            message_writer=self.message_writer,
            **options,
        )
        self._state_writer = StateLines(self.message_writer)

    @property
    def from_version(self) -> settings.Choice:
        """Where streams without a bookmark begin. Raises ``SettingError``."""
        return settings.from_version(self.config)

    @property
    def versions(self) -> settings.Choice:
        """Which versions of a stream are replayed. Raises ``SettingError``."""
        return settings.versions(self.config)

    @property
    def commits(self) -> settings.Commits:
        """Between which commits streams are read. Raises ``SettingError``."""
        return settings.commits(self.config)

    @cached_property
    def batches(self) -> Batches | None:
        """The files of this run's BATCH messages; None where records are sent one by one. Raises ``SettingError``."""
        config = batch_config(self.config.get("batch_config"))
        if config is None:
            return None
        if self.config.get("sequence"):
            raise SettingError(
                "sequence and batch_config are both set", hint="a batch file holds records alone; keep one"
            )
        with place_of("batch_config"):
            storage = open_storage(config.root, storage_settings(self.config))
        return Batches(config, storage, BatchNames(storage, config.prefix, random_id()))

    @cached_property
    def files(self) -> Destination | None:
        """Where this run copies attached files; None where they stay in the lake. Raises ``SettingError``."""
        storages = storage_settings(self.config)
        return destination(self.config.get("include_files"), storages, open_storage(self.config["lake_root"], storages))

    @cached_property
    def lake(self) -> Lake:
        return Lake.open(self.config["lake_root"], storage_settings(self.config), store_settings(self.config))

    def discover_streams(self) -> Sequence[ReplayedStream]:
        """The streams of the tap id that have data. Raises ``NotALakeError``, ``UnknownNameError``,
        ``CorruptObjectError`` and what storage raises."""
        lake, tap_id = self.lake, self.config["tap_id"]
        found, state = lake.catalogue_or_state(tap_id)
        entries = {entry["tap_stream_id"]: entry for entry in found}
        # Where the tap has streams, there is a lake: to ask for that, too, is a request more.
        if not entries and tap_id not in (known := lake.require().taps()):
            raise UnknownNameError(
                f"no tap {tap_id!r} in this lake",
                hint=f"set tap_id to one of: {', '.join(known)}" if known else "nothing was captured yet",
                lake_root=lake.storage.url,
            )
        for choice in (self.from_version, self.versions):
            choice.check(entries)
        _ = self.commits
        names = settings.chosen_streams(self.config.get("streams"), entries)
        write = self.message_writer.write
        return [
            ReplayedStream(
                self, entries[name], lake.stream(tap_id, name), write, state, lambda: self.batches, lambda: self.files
            )
            for name in names
        ]

    @property
    def catalog_dict(self) -> dict[str, Any]:
        """What discovery prints: schemas as they were captured, with the columns of all versions to be replayed. Raises
        as ``extents_of`` where a commit is named."""
        if self.commits.named:
            self._take_view(self._replayed())
        return {"streams": list(in_parallel(ReplayedStream.offered, self._replayed(), threads=THREADS))}

    # Final in the SDK, which would begin with the STATE it was given and find each stream's versions in its turn.
    def sync_all(self) -> None:  # type: ignore[misc]
        """Replay all selected streams, as one view if their tap has atomic runs. Raises what ``extents_of`` raises and,
        where a stream lacks a version that is asked of it, ``UnknownNameError``, both before anything is written; and
        what ``ReplayedStream.sync`` raises."""
        _ = self.batches, self.files
        for choice in (self.from_version, self.versions):
            if choice.value is not None:
                asked = [stream for stream in self._replayed() if stream.asks(choice)]
                lacking = in_parallel(partial(ReplayedStream.lacks, choice=choice), asked, threads=THREADS)
                choice.require(dict(zip((stream.name for stream in asked), lacking, strict=True)))
        # Only the streams hold their states, and each lets go of its own when it is read.
        self._take_view([stream for stream in self._replayed() if stream.is_read])
        super().sync_all()

    def _take_view(self, streams: Sequence[ReplayedStream]) -> None:
        decisions = Decisions(self.lake.storage, self.config["tap_id"])
        extents = extents_of(decisions, [stream.lake_stream for stream in streams], self.commits, self._means_dropped)
        for stream, extent in zip(streams, extents, strict=True):
            stream.extent = extent

    def _means_dropped(self, name: str) -> bool:
        """Whether the run would read a stream of this name, were it there: that is not left out by anybody."""
        if name in self.streams or not settings.is_chosen(self.config.get("streams"), name):
            return False
        if self.input_catalog is None:
            return True
        entry = self.input_catalog.get_stream(name)
        if entry is None:
            self.logger.warning(
                "stream %r was dropped after a commit that is named, and is not in the catalog, so it is left out", name
            )
        return entry is not None and entry.metadata.resolve_selection()[()]

    def _replayed(self) -> list[ReplayedStream]:
        return [stream for stream in self.streams.values() if isinstance(stream, ReplayedStream)]

    def run_discovery(self) -> str:
        """Write the catalog to standard output and return its text."""
        text = self.catalog_json_text
        self.message_writer.write(text.encode("ascii") + b"\n")
        return text

    def setup_mapper(self) -> None:
        """Build the stream maps of all selected streams, so that a wrong map is found before anything is read."""
        # A copy, since the SDK's mapper takes "__else__" out of what it is given.
        self.mapper = PluginMapper(plugin_config=copy.deepcopy(dict(self.config)), logger=self.logger)
        for stream in self.streams.values():
            if stream.selected:
                _ = stream.stream_maps

    def load_state(self, state: dict[str, Any]) -> None:
        """Take the state of an earlier run. Raises ``SettingError`` where it has not the shape of a Singer state."""
        bookmarks = state.get("bookmarks")
        if bookmarks is None:
            return
        if not isinstance(bookmarks, Mapping) or not all(isinstance(one, Mapping) for one in bookmarks.values()):
            raise SettingError("the state's 'bookmarks' is not an object of objects", hint=_STATE_HINT)
        super().load_state({"bookmarks": bookmarks})

    def _validate_config(self, *, raise_errors: bool = True) -> list[str]:
        try:
            return [without_secrets(error) for error in super()._validate_config(raise_errors=raise_errors)]
        except ConfigValidationError as error:
            error.errors = [without_secrets(text) for text in error.errors]
            raise
        finally:
            for text in without_effect(self.name, self._config, self.config_jsonschema["properties"], os.environ):
                self.logger.warning("%s", text)

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:
        self.message_writer.stop(signum, frame)


def main() -> None:
    """The console command: what goes wrong is one line and exit code 1."""
    try:
        TapSingerlake.cli()
    except (SingerlakeError, StreamMapConfigError, MapExpressionError) as error:
        _fail(str(error))
    except ConfigValidationError as error:
        _fail("; ".join(error.errors))
    except simplejson.JSONDecodeError as error:
        _fail(f"config, catalog or state is not JSON: {error}")
    except OSError as error:
        _fail(str(error))


def _fail(message: str) -> None:
    TapSingerlake.logger.critical(message)
    sys.exit(1)

"""The ``target-singerlake`` command: what singer-sdk needs to know of it."""

from __future__ import annotations

import copy
import ctypes
import os
import sys
from contextlib import suppress
from types import FrameType
from typing import IO, Any, ClassVar

import simplejson
from singer_sdk import Target
from singer_sdk.exceptions import ConfigValidationError, SingerSDKError
from singer_sdk.helpers.capabilities import CapabilitiesEnum, PluginCapabilities, TargetCapabilities
from singer_sdk.mapper import PluginMapper

from singerlake.clock import SystemClock, random_id
from singerlake.errors import SingerlakeError
from singerlake.interpreter.process import make_room
from singerlake.lake import Lake
from singerlake.settings import storage_settings, store_settings, without_effect, without_secrets
from target_singerlake.ingest import Ingest
from target_singerlake.input.reader import MessageReader
from target_singerlake.mapped import MappedDecoder
from target_singerlake.settings import MEMORY_BYTES, SCHEMA, settings_of

_MEANINGLESS = ("load_method", "batch_size_rows", "batch_config", "process_activate_version_messages")
"""Settings of singer-sdk for targets that load tables; a lake stores every message."""

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""M_TRIM_THRESHOLD and M_MMAP_THRESHOLD of glibc's malloc.h."""
_LARGEST = 32 << 20
"""The largest M_MMAP_THRESHOLD that glibc takes."""


class TargetSingerlake(Target):
    """Keeps what a Singer tap emits, byte for byte, in a lake that tap-singerlake replays and Spark reads."""

    name = "target-singerlake"
    package_name = "singerlake"
    config_jsonschema = copy.deepcopy(SCHEMA)
    capabilities: ClassVar[list[CapabilitiesEnum]] = [
        PluginCapabilities.ABOUT,
        PluginCapabilities.STREAM_MAPS,
        PluginCapabilities.FLATTENING,
        PluginCapabilities.BATCH,
        PluginCapabilities.ACTIVATE_VERSION,
        PluginCapabilities.STRUCTURED_LOGGING,
        TargetCapabilities.VALIDATE_RECORDS,
    ]

    def __init__(self, **arguments: Any) -> None:
        make_room()
        self._ingest: Ingest | None = None
        self._signal: int | None = None
        super().__init__(**{"message_reader": MessageReader(self._consume), **arguments})

    @classmethod
    def append_builtin_config(cls, config_jsonschema: dict[str, Any]) -> None:
        """singer-sdk's settings, without those that mean nothing to a lake."""
        super().append_builtin_config(config_jsonschema)
        for name in _MEANINGLESS:
            config_jsonschema["properties"].pop(name, None)

    def setup_mapper(self) -> None:
        """The mapper, on a copy of the settings, since it takes some of them away."""
        self.mapper = PluginMapper(plugin_config=copy.deepcopy(dict(self.config)), logger=self.logger)

    def process_endofpipe(self) -> None:
        """Commit what is open. Raises ``SystemExit`` with 128 + signal after a signal: the input was not read whole."""
        if self._ingest is None:
            return
        ingest, self._ingest = self._ingest, None
        ingest.finish()
        if self._signal is not None:
            # Of an atomic run its publisher has said what became of it.
            kept = "" if self.config.get("atomic_run") else "; what was read is committed"
            self.logger.info("Stopped by signal %d%s", self._signal, kept)
            raise SystemExit(128 + self._signal)
        if ingest.broken_output:
            self.logger.error(
                "STATE could not be written to standard output (%s); all that was read is committed",
                ingest.broken_output,
            )
            raise SystemExit(1)

    def _consume(self, source: IO[Any] | None) -> dict[str, int]:
        settings, storages = settings_of(self.config), storage_settings(self.config)
        clock = SystemClock()
        rewriter = None
        if self.config.get("stream_maps") or self.config.get("flattening_enabled") or settings.add_record_metadata:
            rewriter = MappedDecoder(self.mapper, settings.add_record_metadata, clock, clock.now())
        self._ingest = Ingest(
            Lake.open(settings.lake_root, storages, store_settings(self.config)),
            settings,
            storages,
            rewriter=rewriter,
            logger=self.logger,
            clock=clock,
            ids=random_id,
        )
        if self._signal is not None:
            self._ingest.stop(self._signal)
        if source is None and sys.stdin is not None and sys.stdin.isatty():
            self.logger.info("Waiting for Singer messages on standard input; pipe a tap into this command")
        return self._ingest.consume(source)

    def _handle_termination(self, signum: int, frame: FrameType | None) -> None:
        self._signal = signum
        if self._ingest is not None:
            self._ingest.stop(signum)

    def _validate_config(self, *, raise_errors: bool = True) -> list[str]:
        try:
            return [without_secrets(error) for error in super()._validate_config(raise_errors=raise_errors)]
        except ConfigValidationError as error:
            error.errors = [without_secrets(text) for text in error.errors]
            raise
        finally:
            for text in without_effect(self.name, self._config, self.config_jsonschema["properties"], os.environ):
                self.logger.warning("%s", text)

    @classmethod
    def invoke(cls, **arguments: Any) -> None:
        """Run the command. What a person can put right is one line in the log, and exit code 1."""
        try:
            super().invoke(**arguments)
        except ConfigValidationError:
            raise
        except (SingerlakeError, SingerSDKError) as error:
            cls.logger.error("%s", error)
            sys.exit(1)


def main() -> None:
    """The console command: a configuration that cannot be read is one line and exit code 1, too."""
    keep_freed_memory(MEMORY_BYTES)
    try:
        TargetSingerlake.cli()
    except simplejson.JSONDecodeError as error:
        _fail(f"config is not JSON: {error}")
    except OSError as error:
        _fail(str(error))


def _fail(message: str) -> None:
    TargetSingerlake.logger.error(message)
    sys.exit(1)


def keep_freed_memory(most: int) -> None:
    """Have the C library keep up to ``most`` bytes for what is allocated next, where it is glibc. Lines wait in many
    small pieces and are freed a member at a time: given back each time, and paged in again, they would cost a process
    that captures many streams a fifth of its time."""
    with suppress(OSError, AttributeError, TypeError):
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_TRIM_THRESHOLD, most)
        mallopt(_MMAP_THRESHOLD, _LARGEST)


if __name__ == "__main__":
    main()

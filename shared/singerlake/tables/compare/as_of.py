"""A table as a run would have made it at a moment, or of the messages before an offset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from singerlake.errors import ExpiredMessagesError, SettingError
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage
from singerlake.tables.compare.beside import beside
from singerlake.tables.declaration.model import Format, TableDeclaration
from singerlake.tables.declaration.stored import declaration_of, earlier_declarations
from singerlake.tables.read import LakeTable
from singerlake.tables.rows.columns import as_it_was
from singerlake.tables.run.one_table import TableRunner, require_messages
from singerlake.tables.state.model import TableState
from singerlake.upkeep.reports.moment import moment_of, offset_at
from singerlake.upkeep.scan import schema_before
from singerlake.work.engine import Threads
from singerlake.work.machine import processors

Point = str | datetime | int
"""A moment, which is UTC where it names no zone; or an offset, which means the messages before it."""


@dataclass(frozen=True)
class Maker:
    """Makes tables in folders of this machine, which ``open_folder`` opens. ``runner`` reads the lake."""

    runner: TableRunner
    open_folder: Callable[[str], Storage]

    def made(
        self,
        declaration: TableDeclaration,
        manifest: Manifest,
        stop: int,
        key: Sequence[str],
        earlier: Sequence[tuple[int, TableDeclaration]] = (),
    ) -> LakeTable:
        """The table of the messages before ``stop``, of the schemas of ``manifest``, where ``key`` is the stream's. Its
        files are there as long as it is. Raises as ``TableRunner.run``."""
        storage, tables = beside(self.runner.storage, self.open_folder)
        runner = replace(
            self.runner, storage=storage, engine=lambda _: Threads(storage, processors()), lake_id=lambda: ""
        )
        declaration = replace(declaration, format=Format.PARQUET, iceberg=False)
        return LakeTable(tables, runner.made_beside(declaration, manifest, stop, key, earlier))


@dataclass(frozen=True)
class Past:
    """What a table was made of, as it is declared now."""

    maker: Maker
    declaration: TableDeclaration
    earlier: tuple[tuple[int, TableDeclaration], ...]
    manifest: Manifest

    @classmethod
    def of(cls, maker: Maker, state: TableState) -> Past:
        """That of a published table. Raises ``SettingError`` where a statement made it, and as ``require_messages``."""
        if not state.sources:
            raise SettingError(
                f"table {state.table!r} is made by a statement, which reads tables as they are now",
                hint="name the tables that it reads, and run the statement over what they were",
            )
        source = state.sources[0]
        manifest = maker.runner.manifest(source.tap, source.stream)
        require_messages(state, manifest)
        return cls(maker, declaration_of(state), earlier_declarations(state), manifest)

    def stop(self, point: Point) -> int:
        """The offset before which the stream ended there. Raises ``SettingError`` where that is not a moment or an
        offset of the stream, ``ExpiredMessagesError`` where nothing is left of what was before, and what storage
        raises."""
        manifest, runner = self.manifest, self.maker.runner
        at = {"tap": manifest.tap, "stream": manifest.stream}
        if isinstance(point, int):
            stop = point
            if not 0 <= stop <= manifest.next_offset:
                raise SettingError(
                    f"there is no offset {stop}", hint=f"the stream ends at offset {manifest.next_offset}", **at
                )
        else:
            moment = moment_of(point)
            if moment > runner.clock.now():
                raise SettingError(f"{point} is in the future", hint="name one that is past", **at)
            stop = offset_at(runner.storage, manifest, moment)
        if stop > manifest.floor:
            return stop
        if manifest.floor:
            raise ExpiredMessagesError(
                "all messages that there were then have expired",
                hint=f"the first that is there has offset {manifest.floor}: name a later moment or offset",
                **at,
            )
        when = f"before offset {point}" if isinstance(point, int) else f"at {point}"
        raise SettingError(f"the stream had no message {when}", hint="name a later moment or offset", **at)

    def made(self, stop: int, *, known: int | None = None) -> LakeTable:
        """The table of the messages before ``stop``, by the schemas and the key that came before ``known``, which is
        ``stop`` by default. Raises as ``TableRunner.run``."""
        known = stop if known is None else known
        schema = schema_before(self.maker.runner.storage, self.manifest, known)
        key = () if schema is None else schema.key_properties
        return self.maker.made(self.declaration, as_it_was(self.manifest, known), stop, key, self.earlier)

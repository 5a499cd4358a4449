"""A table as a run would have made it at a moment or a commit, or of the messages before an offset."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from singerlake.arrow.schema.columns import Struct
from singerlake.errors import ExpiredMessagesError, SettingError
from singerlake.format import layout
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.atomic.view import view_as_of
from singerlake.tables.compare.beside import beside
from singerlake.tables.declaration.model import Format, TableDeclaration
from singerlake.tables.declaration.stored import declaration_of, earlier_declarations
from singerlake.tables.read import LakeTable
from singerlake.tables.rows.columns import as_it_was
from singerlake.tables.run.one_table import TableRunner, require_messages
from singerlake.tables.run.plan import make_plan
from singerlake.tables.state.model import TableState
from singerlake.upkeep.reports.moment import moment_of, offset_at
from singerlake.upkeep.scan import schema_before
from singerlake.work.engine import Threads
from singerlake.work.machine import processors

Point = str | datetime | int
"""A moment, which is UTC where it names no zone; the commit of an atomic run; or an offset, which means the messages
before it."""


def stop_at(storage: Storage, manifest: Manifest, point: Point, now: datetime) -> int:
    """The offset before which a stream ended there. Raises ``SettingError`` where ``point`` is not a moment, a commit
    or an offset of the stream, ``UnknownNameError`` for a commit that its tap does not have, ``ExpiredMessagesError``
    where nothing is left of what was before, as ``view_as_of``, and what storage raises."""
    at = {"tap": manifest.tap, "stream": manifest.stream}
    if isinstance(point, int):
        when, stop = f"before offset {point}", point
        if not 0 <= stop <= manifest.next_offset:
            raise SettingError(
                f"there is no offset {stop}", hint=f"the stream ends at offset {manifest.next_offset}", **at
            )
    elif isinstance(point, str) and layout.commit_name_in(f"{point}.json"):
        when, stop = f"as of commit {point}", _end_as_of(storage, manifest, point)
    else:
        when, moment = f"at {point}", moment_of(point)
        if moment > now:
            raise SettingError(f"{point} is in the future", hint="name one that is past", **at)
        stop = offset_at(storage, manifest, moment)
    if stop > manifest.floor:
        return stop
    if manifest.floor:
        raise ExpiredMessagesError(
            "all messages that there were then have expired",
            hint=f"the first that is there has offset {manifest.floor}: name a later moment or offset",
            **at,
        )
    raise SettingError(f"the stream had no message {when}", hint="name a later moment or offset", **at)


def _end_as_of(storage: Storage, manifest: Manifest, commit: str) -> int:
    decisions = Decisions(storage, manifest.tap)
    return view_as_of(decisions, commit, lambda: {manifest.stream: manifest})[manifest.stream].end


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
        """The offset before which the stream ended there. Raises as ``stop_at``."""
        runner = self.maker.runner
        return stop_at(runner.storage, self.manifest, point, runner.clock.now())

    def made(self, stop: int, *, known: int | None = None) -> LakeTable:
        """The table of the messages before ``stop``, by the schemas and the key that came before ``known``, which is
        ``stop`` by default. Raises as ``TableRunner.run``."""
        known = stop if known is None else known
        manifest, key = as_it_was(self.manifest, known), self._key(known)
        return self.maker.made(self.declaration, manifest, stop, key, self.earlier)

    def columns(self, stop: int) -> Struct:
        """The columns that it has. Raises as ``make_plan``, and what storage raises."""
        manifest = as_it_was(self.manifest, stop)
        return make_plan(self.declaration, manifest, None, stream_key=self._key(stop)).columns.table

    def _key(self, known: int) -> tuple[str, ...]:
        schema = schema_before(self.maker.runner.storage, self.manifest, known)
        return () if schema is None else schema.key_properties

"""What the cases of the suite are made with: one stream of one lake in memory, whose clock moves when it is told to."""

from __future__ import annotations

import hashlib
import json
import tempfile
import zlib
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from singerlake.clock import timestamp
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader
from singerlake.format.lines.times import span
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state.additions import Conflict
from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import DataFile, NewFile
from singerlake.format.state.model import Manifest, StreamSchema
from singerlake.format.state.transactions import ReplaceFiles, Transaction
from singerlake.lake import Lake
from singerlake.settings import StoreSettings
from singerlake.singer_file import compress_member
from singerlake.storage.settings import StorageSettings
from singerlake.stores.commit import Commit, submit_transaction
from singerlake.stores.port import Loaded, ManifestStore
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.migrate import migrate_stream
from singerlake.upkeep.vacuum.join import join, read_head
from tests.storage.memory import MemoryStorage
from tools.golden_suite.member_table import table_of, text_of

RUN = "run0000000000000"
START = datetime(2026, 1, 1, tzinfo=UTC)
V1: dict[str, Any] = {"type": "object", "properties": {"n": {"type": "integer"}, "note": {"type": ["null", "string"]}}}
V2: dict[str, Any] = {"type": "object", "properties": {"n": {"type": ["integer", "null"]}, "note": {}, "x": {}}}


def record(n: int, stream: str = "s", **more: Any) -> bytes:
    """A RECORD message, some of its members outside of the record."""
    inner = {"n": n, **{name: more.pop(name) for name in ("note",) if name in more}}
    return json.dumps({"type": "RECORD", "stream": stream, "record": inner, **more}, ensure_ascii=False).encode()


def schema_line(schema: Any, stream: str = "s", keys: Sequence[str] = ("n",)) -> bytes:
    """A SCHEMA message with its newline."""
    return json.dumps({"type": "SCHEMA", "stream": stream, "schema": schema, "key_properties": keys}).encode() + b"\n"


def file_bytes(schema: Any, members: Sequence[Sequence[bytes]], header: bytes | None, stream: str = "s") -> bytes:
    """A data file as a target writes it."""
    texts = [b"".join(line + b"\n" for line in lines) for lines in members]
    return compress_member(schema_line(schema, stream), 1, extra=header) + b"".join(
        compress_member(text, 1) for text in texts
    )


class StillClock:
    """Moves when somebody sleeps."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def jitter(self) -> float:
        return 0.5


class Maker:
    """A stream in the manifest store ``kind``, of the case ``name``. ``messages`` is what a reader must give, in the
    order of the commits; None in the place of what was erased."""

    def __init__(self, kind: str, name: str) -> None:
        self.kind, self.tap, self.stream = kind, "t", "s"
        self.clock = StillClock()
        self._given = 0
        self._own = zlib.crc32(name.encode()) & 0xFFFF
        self.storage = MemoryStorage(clock=self.clock, ids=self.ids)
        self.lake = Lake(self.storage, self.clock, self.ids, StoreSettings(), StorageSettings())
        self.messages: list[bytes | None] = []
        self.born = b""
        self._spans: list[tuple[int, str, list[str]]] = []

    def ids(self) -> str:
        """Other ones for each case."""
        self._given += 1
        return f"{self._own:04x}{self._given:012x}"

    def now(self) -> str:
        return timestamp(self.clock.now())

    @property
    def prefix(self) -> str:
        return layout.stream_prefix(self.tap, self.stream)

    @property
    def manifest_key(self) -> str:
        return layout.manifest_key(self.tap, self.stream)

    def log_key(self, name: str) -> str:
        return layout.log_prefix(self.tap, self.stream) + name

    def put(self, key: str, body: bytes) -> None:
        self.storage.put(key, body)

    def delete(self, key: str) -> None:
        self.storage.delete(key)

    def get(self, key: str) -> bytes:
        stored = self.storage.get(key)
        assert stored is not None, key
        return stored.body

    def body(self, file: NewFile) -> bytes:
        return self.get(self.prefix + file.path)

    def manifest_body(self) -> bytes:
        return self.get(self.manifest_key)

    def edit(self, change: Callable[[dict[str, Any]], object]) -> None:
        manifest = json.loads(self.manifest_body())
        change(manifest)
        self.put(self.manifest_key, json.dumps(manifest).encode())

    def store(self) -> ManifestStore:
        return self.lake.stream(self.tap, self.stream).store(self.kind)

    def state(self) -> Manifest:
        loaded = self.store().load()
        assert loaded is not None
        return loaded.manifest

    def header(self, id: str) -> bytes:
        """What a file that is begun now says of itself."""
        header = FileHeader(id=id, created=self.now(), run=RUN, seq=0, lake_id=self.lake.lake_id(self.kind))
        return msgspec.json.encode(header)

    def keep(self, schema: Any) -> str:
        """Have the stream known by its SCHEMA alone; gives the version."""
        self.clock.sleep(1)
        writer = self.lake.stream(self.tap, self.stream).writer(writer_id="suite", store=self.kind)
        manifest = writer.keep_schema(StreamSchema(schema=schema, key_properties=("n",)), RUN)
        writer.finish()
        self.lake.announce(manifest)
        self.born = self.manifest_body()
        return next(iter(manifest.versions))

    def add(self, schema: Any, *members: Sequence[bytes]) -> DataFile:
        """Commit a file of those members, a second after the one before."""
        self.clock.sleep(1)
        id = self.ids()
        body = file_bytes(schema, members, self.header(id), self.stream)
        return self.commit(schema, body, id, members)

    def described(
        self,
        schema: Any,
        body: bytes,
        id: str,
        members: Sequence[Sequence[bytes]],
        attached: tuple[Attached, ...] = (),
    ) -> NewFile:
        """A file of those members as the manifest lists it."""
        lines = [line for member in members for line in member]
        times = span([json.loads(line).get("time_extracted") for line in lines]) or (self.clock.now(), self.clock.now())
        return NewFile(
            id=id,
            path=layout.file_path(self.stream, schema_hash(schema), *times, id),
            version=schema_hash(schema),
            messages=len(lines),
            records=sum(json.loads(line)["type"] == "RECORD" for line in lines),
            bytes=len(body),
            raw_bytes=len(text_of(body)),
            sha256=hashlib.sha256(body).hexdigest(),
            first=timestamp(times[0]),
            last=timestamp(times[1]),
            members=table_of(body),
            attached=attached,
        )

    def commit(
        self,
        schema: Any,
        body: bytes,
        id: str,
        members: Sequence[Sequence[bytes]],
        attached: tuple[Attached, ...] = (),
    ) -> DataFile:
        """Commit a file of those members."""
        file = self.described(schema, body, id, members, attached)
        writer = self.lake.stream(self.tap, self.stream).writer(writer_id="suite", store=self.kind)
        writer.open()
        if not self.born:
            self.born = self.manifest_body()
        with tempfile.TemporaryDirectory() as folder:
            spool = Path(folder) / id
            spool.write_bytes(body)
            manifest = writer.publish(spool, file, StreamSchema(schema=schema, key_properties=("n",)))
        writer.finish()
        self.lake.announce(manifest)
        self.messages += [line for member in members for line in member]
        return manifest.by_id[id]

    def finish(self) -> None:
        """Publish the state, as at the end of a run."""
        loaded = self.store().load()
        assert loaded is not None
        self.store().publish(loaded, run_ended=True)

    def put_file(self, schema: Any, body: bytes, *, id: str) -> None:
        """A data file that nothing lists."""
        moment = self.clock.now()
        self.put(self.prefix + layout.file_path(self.stream, schema_hash(schema), moment, moment, id), body)

    def joined(self, files: Sequence[DataFile]) -> NewFile:
        """A file that holds those files' messages, on storage and not listed."""
        heads = [read_head(file, self.body(file)) for file in files]
        lineage = self.state().lineage
        assert lineage is not None
        made = join(heads, id=self.ids(), lineage=lineage, stream=self.stream, now=self.clock.now())
        body = b"".join(
            piece if isinstance(piece, bytes) else self.get(piece.key)[piece.start : piece.end]
            for piece in made.pieces(self.prefix)
        )
        self.put(self.prefix + made.file.path, body)
        return msgspec.structs.replace(made.file, sha256=hashlib.sha256(body).hexdigest())

    def replace(self, files: Sequence[DataFile]) -> DataFile:
        """Have a joined file take the place of those files."""
        self.clock.sleep(1)
        new = self.joined(files)
        store = self.store()
        base = store.load()
        assert base is not None
        change = ReplaceFiles(old=tuple(file.id for file in files), new=(new,))
        transaction = Transaction(id=self.ids(), at=self.now(), change=change)
        outcome = self.settled(submit_transaction(store, base, transaction, clock=self.clock), base)
        assert isinstance(outcome, Loaded)
        store.publish(outcome, run_ended=True)
        return outcome.manifest.by_id[new.id]

    def settled(self, commit: Commit, base: Loaded) -> Loaded | Conflict:
        while (outcome := commit.look(base)) is None:
            self.clock.sleep(1)
        return outcome

    def migrate(self, kind: str, from_kind: str = "lockfile") -> None:
        """Move the stream to another store; the lake's new streams are to be kept there, too."""
        there = self.lake.stream(self.tap, self.stream)
        old, new = there.store(from_kind), there.store(kind)
        migrate_stream(StreamContext(self.storage, self.tap, self.stream, self.clock, self.ids, old), new)
        self.kind = kind
        metadata = json.loads(self.get(layout.root_metadata_key()))
        self.put(layout.root_metadata_key(), json.dumps({**metadata, "manifest_store": kind}).encode())

    def resumes(self, at: int | None, **bookmark: Any) -> dict[str, Any]:
        """A bookmark, and the offset at which a reader goes on with it; None: it must refuse to."""
        return {"bookmark": {"file": None, "line": 0, **bookmark}, "offset": at}

    def expected(
        self, about: str, *, rebuilt: bool = False, atomic: bool = False, segments: bool = False, **more: Any
    ) -> dict[str, Any]:
        """What a reader must give. ``atomic``, ``segments``: whether the state has these features."""
        floor = more.get("floor", 0)
        has = {
            "atomic": atomic,
            "attached": bool(more.get("attached")),
            "erased": None in self.messages[floor:],
            "expired": floor > 0,
            "segments": segments,
        }
        features = [name for name, there in has.items() if there]
        made: dict[str, Any] = {"about": about, "tap": self.tap, "stream": self.stream}
        made["taps"] = {self.tap: [self.stream]}
        made["lineage"] = None if rebuilt else self._known().lineage
        made["messages"] = self._texts()
        if not rebuilt:
            state = self._known()
            made["versions"] = {
                label: {"hash": version, "first_offset": state.schemas[version].first_offset}
                for version, label in state.versions.items()
            }
        return {**made, **({"features": features} if features else {}), **more}

    def _known(self) -> Manifest:
        return self.lake.stream(self.tap, self.stream).snapshot()

    def refused(self, about: str, *, after: int | None = None) -> dict[str, Any]:
        """That a reader must end in an error: at once, or having given at most that many messages."""
        made: dict[str, Any] = {"about": about, "tap": self.tap, "stream": self.stream, "error": True}
        return made if after is None else {**made, "messages": self._texts()[:after]}

    def _texts(self) -> list[str | None]:
        return [None if line is None else line.decode() for line in self.messages]

    def write(self, folder: Path) -> None:
        """Everything in the lake, as files."""
        for entry in self.storage.list(""):
            if entry.key.startswith("raw/"):
                path = folder / entry.key
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(self.get(entry.key))

"""Writes the golden lake of the current format: fixed times, fixed identities, every feature of the format once.

    python tools/golden_lake.py FOLDER

The committed copy under ``tests/golden`` is never written again once its format is released: what it holds must stay
readable for good. A new format gets a new folder beside it.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from singerlake.clock import timestamp
from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader, Provenance, empty_member
from singerlake.format.metadata import catalogue, root
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Manifest, Run, StreamSchema
from singerlake.format.state.transactions import ReplaceFiles, Transaction
from singerlake.lock_file import LockSettings
from singerlake.singer_file import Spool, compress_member
from singerlake.storage.local.storage import LocalStorage
from singerlake.stores.commit import commit_transaction
from singerlake.stores.lockfile import LockfileStore
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded
from singerlake.stores.writer import StreamWriter

START = datetime(2026, 1, 1, tzinfo=UTC)
EXTRACTED = START + timedelta(milliseconds=1)
TAP = "tap-example"

FLIGHTS_V1 = {"type": "object", "properties": {"id": {"type": "integer"}, "carrier": {"type": "string"}}}
FLIGHTS_V2 = {
    "type": "object",
    "properties": {
        "id": {"type": "integer"},
        "carrier": {"type": ["null", "string"]},
        "delay": {"type": ["null", "number"]},
    },
}
ANYTHING = {
    "type": "object",
    "properties": {"a": True, "b": {"type": "array", "items": [{"type": "string"}, False]}},
    "$defs": {"x": {"type": ["string", "null"]}},
}

Member = list[bytes]


class FixedClock:
    """A second later at each look."""

    def __init__(self) -> None:
        self._ticks = itertools.count()

    def now(self) -> datetime:
        return START + timedelta(seconds=next(self._ticks))

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, seconds: float) -> None:
        raise RuntimeError(f"nobody has to wait {seconds} s for a lake of one's own")

    def jitter(self) -> float:
        return 0.5


def fixed_ids() -> Callable[[], str]:
    """Sixteen base32hex characters, counting up."""
    numbers = itertools.count(1)
    return lambda: f"{next(numbers):016x}"


class Builder:
    """Publishes files of given lines to streams of one lake."""

    def __init__(self, folder: Path) -> None:
        self.clock, self.ids = FixedClock(), fixed_ids()
        self.storage = LocalStorage(folder / "lake", clock=self.clock, ids=self.ids)
        self.spools = folder
        self.run = Run(id=self.ids(), writer="example-writer", started=timestamp(START))
        self._files = itertools.count()

    def writer(self, stream: str) -> StreamWriter:
        return StreamWriter(
            place=StreamPlace(self.storage, TAP, stream, self.clock, self.ids),
            store=LockfileStore(self.storage, TAP, stream),
            writer_id="example-writer",
            lock=LockSettings(),
            rebuild=self._nothing_to_rebuild,
        )

    def publish(self, writer: StreamWriter, schema: object, keys: list[str], members: list[Member]) -> Manifest:
        version = writer.version_of(schema)
        spool, file = self.file(writer.stream, version, schema, keys, members)
        content = StreamSchema(schema=schema, key_properties=tuple(keys))
        return writer.publish(spool, file, content, self.run)

    def file(
        self, stream: str, version: str, schema: object, keys: list[str], members: list[Member]
    ) -> tuple[Path, NewFile]:
        moment = self.clock.now()
        header = FileHeader(id=self.ids(), created=timestamp(moment), run=self.run.id, seq=next(self._files))
        line = msgspec.json.encode({"type": "SCHEMA", "stream": stream, "schema": schema, "key_properties": keys})
        spool = Spool(self.spools / header.id, line, header, level=1)
        for lines in members:
            raw = b"".join(line + b"\n" for line in lines)
            records = sum(b'"RECORD"' in line for line in lines)
            spool.append(compress_member(raw, 1), raw_bytes=len(raw), messages=len(lines), records=records)
        first, last = (EXTRACTED if b"time_extracted" in line else moment for line in (members[0][0], members[-1][-1]))
        path = layout.file_path(stream, version, first, last, header.id)
        return spool.path, spool.describe(path=path, version=version, first=timestamp(first), last=timestamp(last))

    def join(self, writer: StreamWriter, old: list[str]) -> None:
        """Replace files by one that holds their members behind a member that says so."""
        store = writer.store
        base = store.load()
        assert base is not None
        files = [base.manifest.by_id[id] for id in old]
        new_id = self.ids()
        provenance = Provenance(
            id=new_id,
            lineage=base.manifest.lineage or "",
            offset=files[0].offset,
            replaces=tuple((file.id, file.messages) for file in files),
        )
        prefix = layout.stream_prefix(TAP, writer.stream)
        body = empty_member(msgspec.json.encode(provenance))
        members: list[tuple[int, int]] = []
        for file in files:
            members += [(start + len(body), count) for start, count in file.members]
            stored = self.storage.get(prefix + file.path)
            assert stored is not None
            body += stored.body
        target = self.spools / new_id
        target.write_bytes(body)
        new = NewFile(
            id=new_id,
            path=layout.file_path(writer.stream, files[0].version, EXTRACTED, EXTRACTED, new_id),
            version=files[0].version,
            messages=sum(file.messages for file in files),
            records=sum(file.records for file in files),
            bytes=len(body),
            raw_bytes=sum(file.raw_bytes for file in files),
            sha256=hashlib.sha256(body).hexdigest(),
            first=files[0].first,
            last=files[-1].last,
            members=tuple(members),
        )
        self.storage.upload(prefix + new.path, target)
        change = ReplaceFiles(old=tuple(old), new=(new,))
        transaction = Transaction(id=self.ids(), at=timestamp(self.clock.now()), change=change)
        assert isinstance(commit_transaction(store, base, transaction, clock=self.clock), Loaded)

    def _nothing_to_rebuild(self, kind: str) -> Manifest:
        raise RuntimeError("a golden lake begins empty")


def record(stream: str, **fields: object) -> bytes:
    return msgspec.json.encode(
        {"type": "RECORD", "stream": stream, "record": fields, "time_extracted": timestamp(EXTRACTED)}
    )


def build(folder: Path) -> None:
    """The golden lake in ``folder/lake``, which must not be there yet."""
    builder = Builder(folder)
    flights = builder.writer("flights")
    first = builder.publish(
        flights, FLIGHTS_V1, ["id"], [[record("flights", id=1, carrier="UA"), record("flights", id=2, carrier="AA")]]
    )
    second = builder.publish(flights, FLIGHTS_V1, ["id"], [[record("flights", id=3, carrier="B6")]])
    members = [
        [
            record("flights", id=4, carrier=None, delay=-1.5),
            b'{"type": "ACTIVATE_VERSION", "stream": "flights", "version": 7}',
        ],
        [b'{"type":"RECORD","stream":"flights","record":{"id":5,"delay":NaN},"version":7}\r'],
    ]
    builder.publish(flights, FLIGHTS_V2, ["id"], members)
    builder.publish(flights, FLIGHTS_V1, ["id"], [[record("flights", id=6, carrier="DL")]])
    builder.join(flights, [first.files[0].id, second.files[1].id])

    odd = builder.writer("../a b/ü")
    odd_lines = [
        b'{"record": {"a": "\\ud800", "b": ["x", 1]}, "type": "RECORD", "stream": "../a b/\\u00fc"}',
        record("../a b/ü", a=12345678901234567890123, b=["SCHEMA"]),
    ]
    builder.publish(odd, ANYTHING, [], [odd_lines])
    builder.writer("empty").open()

    known: dict[str, object] | None = None
    for stream in ("flights", "../a b/ü"):
        loaded = LockfileStore(builder.storage, TAP, stream).load()
        assert loaded is not None
        entry = catalogue.entry(loaded.manifest)
        assert entry is not None
        known = catalogue.merged(known, entry)
    assert known is not None
    builder.storage.put(layout.catalogue_key(TAP), catalogue.to_json(known))
    metadata = root.new(lake_id=builder.ids(), manifest_store="lockfile")
    notes = root.TapNotes(owner="Ada", description="an example", links={"docs": "https://example.org/"})
    metadata = msgspec.structs.replace(metadata, taps={TAP: notes})
    builder.storage.put(layout.root_metadata_key(), root.to_json(metadata))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    build(parser.parse_args().folder)

"""The cases of the suite that are made next, each a function that makes a stream and says what a reader must give of
it. One that is in the suite is data from then on, and its function may go."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from singerlake.format import layout
from singerlake.format.extra_fields import FileHeader, Provenance, empty_member
from singerlake.format.kept_schema import kept, to_json
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state.manifest import to_json as manifest_json
from singerlake.format.state.model import Run, StreamSchema
from singerlake.format.state.transactions import AddFiles, Change, RecordRun, Transaction
from singerlake.singer_file import compress_member
from singerlake.stores.atomic.commit_run import AtomicRun, RunShare, commit_run
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.commit import commit_transaction
from singerlake.stores.port import Loaded
from tools.golden_suite.maker import RUN, V1, V2, Maker, file_bytes, record, schema_line

Case = Callable[[Maker], dict[str, Any]]
CASES: dict[str, Case] = {}
HOLE = b'{"type":"ERASED"}'
V3, V4, V5 = ({"type": "object", "properties": {name: {}}} for name in ("a", "b", "c"))


def case(made: Case) -> Case:
    """One case, which is called what the function is."""
    CASES[made.__name__.replace("_", "-")] = made
    return made


# Logs without their floor


def moved_to_merge(maker: Maker) -> bytes:
    """A stream that moved from log to merge, and went on there, without its floor; gives manifest.json of before."""
    maker.add(V1, [record(1), record(2)])
    before = maker.manifest_body()
    maker.add(V2, [record(3)])
    maker.migrate("merge", from_kind="log")
    maker.add(V2, [record(4)])
    maker.delete(maker.log_key(layout.LOG_FLOOR))
    return before


@case
def log_moved_to_merge_without_its_manifest_and_floor(maker: Maker) -> dict[str, Any]:
    moved_to_merge(maker)
    maker.delete(maker.manifest_key)
    return maker.expected("Moved from log to merge; manifest.json and floor.json are gone: the newest birth counts.")


@case
def log_moved_to_merge_without_its_floor_and_an_older_manifest(maker: Maker) -> dict[str, Any]:
    maker.put(maker.manifest_key, moved_to_merge(maker))
    return maker.expected(
        "Moved from log to merge; floor.json is gone, and manifest.json was put back from before: a birth lies behind "
        "the close."
    )


@case
def log_with_runs_ahead_of_its_manifest(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(0)])
    maintenance = Run(id="", writer="suite", started=maker.now(), updated=maker.now(), status="finished", kind="gc")
    known = [msgspec.to_builtins(msgspec.structs.replace(maintenance, id=f"gc-{n:02}")) for n in range(49)]
    maker.edit(lambda manifest: manifest.update(runs=known))
    before = maker.manifest_body()

    def commit(change: Change) -> None:
        maker.clock.sleep(1)
        store = maker.store()
        base = store.load()
        assert base is not None
        transaction = Transaction(id=maker.ids(), at=maker.now(), change=change)
        assert isinstance(commit_transaction(store, base, transaction, clock=maker.clock), Loaded)

    def told(kind: str, **more: Any) -> Run:
        return Run(**{"id": kind, "writer": "suite", "started": maker.now(), "kind": kind, **more})

    def brought(n: int, **more: Any) -> AddFiles:
        id = maker.ids()
        body = file_bytes(V1, [[record(n)]], maker.header(id))
        file = maker.described(V1, body, id, [[record(n)]])
        maker.put(maker.prefix + file.path, body)
        maker.messages.append(record(n))
        schemas = {file.version: StreamSchema(schema=V1, key_properties=("n",))}
        return AddFiles(files=(file,), schemas=schemas, run=told("capture", **more))

    commit(brought(1, status="running", table_version=7, files=99, messages=99))
    commit(RecordRun(run=told("vacuum", status="finished", files=2, records=1)))
    commit(brought(2, status="finished", writer="another", activated=7))
    commit(RecordRun(run=told("erase", status="finished", files=1, records=3)))
    maker.put(maker.manifest_key, before)
    return maker.expected(
        "Runs in the log: one brings files twice, and of more than 50 of maintenance the oldest goes.",
        runs=[
            [
                run["id"],
                run["writer"],
                run["status"],
                run["files"],
                run["records"],
                run.get("table_version"),
                run.get("activated"),
            ]
            for run in msgspec.to_builtins(maker.state().runs)
        ],
    )


# Times


@case
def times_with_fractions(maker: Maker) -> dict[str, Any]:
    for n in range(3):
        maker.add(V1, [record(n)])
    times = ["2026-01-01T00:30.5Z", "2026-01-01T00.5Z", "2026-01-01T00:30:10,5Z"]
    files = [
        msgspec.structs.replace(file, first=time, last=time)
        for file, time in zip(maker.state().files, times, strict=True)
    ]
    maker.put(maker.manifest_key, manifest_json(msgspec.structs.replace(maker.state(), files=tuple(files))))
    return maker.expected(
        "A fraction of minutes or of hours names no moment, one of seconds does, behind a comma, too.",
        between=[
            {"from": "2026-06-01T00:00:00Z", "to": "2026-06-02T00:00:00Z", "offsets": [0, 1]},
            {"from": "2026-01-01T00:30:10.5Z", "to": "2026-01-01T00:30:10.5Z", "offsets": [0, 1, 2]},
        ],
        unknown_times=[file.id for file in files[:2]],
    )


# Data files


def vacuumed(id: str, replaces: Sequence[tuple[str, int]], **more: Any) -> bytes:
    return empty_member(msgspec.json.encode(Provenance(id=id, lineage="x", offset=0, replaces=tuple(replaces), **more)))


@case
def schema_messages_of_every_kind(maker: Maker) -> dict[str, Any]:
    without = b'{"type":"SCHEMA","stream":"s","key_properties":["n"]}\n'
    for n, texts in enumerate(((without, b""), (schema_line(V1), schema_line(V2)))):
        maker.clock.sleep(1)
        id, line = maker.ids(), record(n)
        first, more = texts
        body = compress_member(first, 1, extra=maker.header(id)) + compress_member(more + line + b"\n", 1)
        maker.commit(V1, body, id, [[line]])
    return maker.expected("The first SCHEMA message has no schema; a later one is of another version.")


@case
def schema_messages_of_every_kind_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    expected = schema_messages_of_every_kind(maker)
    maker.delete(maker.manifest_key)
    maker.messages = maker.messages[1:]
    return maker.expected(
        f"{expected['about']} Without manifest.json the first file is damaged.",
        rebuilt=True,
        versions={"v1": {"hash": schema_hash(V1), "first_offset": 0}},
    )


@case
def joins_of_every_kind_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    a, b, c, d, e, f = (maker.add(V1, [record(n)]) for n in range(6))
    bodies = {file.id: maker.body(file) for file in (a, b, c, d)}
    front = vacuumed("v100000000000000", [(a.id, 1)]) + vacuumed("v200000000000000", [(b.id, 1)])
    maker.put_file(V1, front + bodies[a.id] + bodies[b.id], id="another000000000")
    maker.put_file(V1, vacuumed("", [(c.id, 1), (d.id, 1)]) + bodies[c.id] + bodies[d.id], id="empty00000000000")
    for file in (a, b, d):
        maker.delete(maker.prefix + file.path)
    wrong = file_bytes(V1, [[record(n)] for n in (90, 91, 92)], maker.header(maker.ids()))
    maker.put_file(V1, vacuumed(maker.ids(), [(e.id, 5), (f.id, -2)]) + wrong, id="negative00000000")
    maker.put_file(V1, vacuumed(maker.ids(), [(e.id, 3), (f.id, 0)]) + wrong, id="nothing000000000")
    maker.clock.sleep(1)
    for n, seq in ((7, 0), (6, -7)):
        header = FileHeader(id=maker.ids(), created=maker.now(), run=RUN, seq=seq)
        maker.put_file(V1, file_bytes(V1, [[record(n)]], msgspec.json.encode(header)), id=header.id)
    maker.delete(maker.manifest_key)
    maker.messages = [record(n) for n in range(8)]
    return maker.expected(
        "Leading members of two ids are one file of the first id, an empty id is one; of a file with an original "
        "that has no message, or fewer, nothing counts; and a number of a file may be negative.",
        rebuilt=True,
        bookmarks=[
            maker.resumes(1, lineage="x", offset=9, file=a.id, line=1),
            maker.resumes(2, lineage="x", offset=9, file=b.id, line=1),
            maker.resumes(2, lineage="x", offset=9, file="v100000000000000", line=2),
            maker.resumes(None, lineage="x", offset=9, file="v200000000000000", line=1),
            maker.resumes(None, lineage="x", offset=9, file="another000000000", line=1),
            maker.resumes(4, lineage="x", offset=9, file=d.id, line=1),
            maker.resumes(3, lineage="x", offset=9, file="", line=1),
        ],
    )


@case
def copies_whose_names_tell_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    first, second = (maker.add(V1, [record(n)]) for n in range(2))
    names = []
    for file, copies in ((first, ("0", "z")), (second, ("2", "1", "3"))):
        folder, _, name = file.path.partition("/")
        for copy in copies:
            maker.put(f"{maker.prefix}{folder}/{copy}-{name.replace(file.id, 16 * 'c')}", maker.body(file))
        names.append(f"{folder}/1-{name.replace(file.id, 16 * 'c')}")
    maker.delete(maker.prefix + second.path)
    maker.delete(maker.manifest_key)
    return maker.expected(
        "Of equal copies the one whose name ends on its id stays, and where none does, the first by its path.",
        rebuilt=True,
        paths=[first.path, names[1]],
    )


@case
def erased_of_a_cut_original_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    whole = maker.add(V1, [record(1), record(2)], [record(3)])
    said = vacuumed("erased0000000000", [(whole.id, 2)], erased=((whole.id, 1, maker.now(), "suite"),))
    maker.put_file(V1, said + file_bytes(V1, [[HOLE, record(2)]], None), id="erased0000000000")
    maker.delete(maker.manifest_key)
    maker.messages = []
    return maker.refused(
        "A message is erased in a file that has fewer messages than the one that still holds it: to take either would "
        "bring back what was erased, or lose the third message.",
        after=0,
    )


@case
def schemas_among_files_and_without_its_manifest(maker: Maker) -> dict[str, Any]:
    def keep(schema: Any, created: str) -> None:
        held = kept(
            StreamSchema(schema=schema, key_properties=("n",)),
            tap=maker.tap,
            stream=maker.stream,
            created=created,
            run=RUN,
            lake_id=maker.lake.lake_id(maker.kind),
        )
        maker.put(maker.prefix + layout.schema_path(schema_hash(schema)), to_json(held))

    times = []
    for n, schema in enumerate((V2, V1, V3, V1, V2)):
        maker.add(schema, [record(n)])
        times.append(maker.now())
    keep(V2, "2026-01-01T00:00:00.000000Z")
    keep(V1, times[2])
    keep(V3, "2026-01-01T00:01:00.000000Z")
    keep(V4, "yesterday")
    maker.clock.sleep(1)
    maker.put_file(V5, file_bytes(V5, [[record(5)]], None), id="silent0000000000")
    maker.messages.append(record(5))
    maker.delete(maker.manifest_key)
    order = [(V2, 0), (V1, 1), (V3, 2), (V4, 5), (V5, 5)]
    return maker.expected(
        "schema.json of three versions stands before, between and behind files of its version, and one without any "
        "says that it was made yesterday: it stands behind all that name a moment, before files that say nothing.",
        rebuilt=True,
        versions={
            f"v{at}": {"hash": schema_hash(schema), "first_offset": offset}
            for at, (schema, offset) in enumerate(order, start=1)
        },
    )


# Atomic runs


def atomic_runs(maker: Maker, *runs: dict[str, bytes]) -> list[str]:
    """A run for each, which brings one line to each stream; gives the names of their commits."""
    decisions, names = Decisions(maker.storage, maker.tap), []
    for count, lines in enumerate(runs):
        maker.clock.sleep(1)
        parts = [atomic_part(maker, stream, line, f"atomic0000000{count:03}") for stream, line in lines.items()]
        run = AtomicRun(parts, decisions, run_id=parts[0].run.id, writer_id="suite", clock=maker.clock, ids=maker.ids)
        commit_run(run)
        for part in parts:
            maker.lake.announce(part.writer.open())
        maker.messages += [lines[maker.stream]] if maker.stream in lines else []
        names.append(decisions.listed().names[-1])
    return names


def atomic_part(maker: Maker, stream: str, line: bytes, run: str) -> RunShare:
    own, maker.stream = maker.stream, stream
    id = maker.ids()
    header = FileHeader(id=id, created=maker.now(), run=run, seq=0, lake_id=maker.lake.lake_id(maker.kind), atomic=True)
    body = file_bytes(V1, [[line]], msgspec.json.encode(header), stream)
    file = maker.described(V1, body, id, [[line]])
    maker.put(maker.prefix + file.path, body)
    maker.stream = own
    writer = maker.lake.stream(maker.tap, stream).writer(writer_id="suite", store=maker.kind)
    schemas = {file.version: StreamSchema(schema=V1, key_properties=("n",))}
    return RunShare(writer, (file,), schemas, Run(id=run, writer="suite", started=maker.now(), status="finished"))


@case
def log_with_atomic_runs_over_a_stream_that_was_dropped(maker: Maker) -> dict[str, Any]:
    alone, both = atomic_runs(maker, {"s": record(1)}, {"s": record(2), "other": record(3, "other")})
    for entry in list(maker.storage.list(layout.stream_prefix(maker.tap, "other"))):
        maker.delete(entry.key)
    return maker.expected(
        "A run brought messages to a stream that is not there any more: as of it, and not before it, is an error.",
        atomic=True,
        as_of=[{"commit": alone, "ends": {"s": 1}}, {"commit": both, "ends": None}],
    )


@case
def log_with_an_atomic_run_that_a_stream_lacks(maker: Maker) -> dict[str, Any]:
    first, second = atomic_runs(maker, *({"s": record(n), "other": record(n, "other")} for n in (1, 2)))
    for number in (1, 2):
        maker.delete(layout.log_prefix(maker.tap, "other") + layout.log_name(number))
    key = layout.manifest_key(maker.tap, "other")
    born = json.loads(maker.get(layout.log_prefix(maker.tap, "other") + layout.log_name(0)))
    maker.put(key, json.dumps(born["transaction"]["change"]["manifest"]).encode())
    assert maker.storage.get(layout.shown_commit_key(maker.tap, second)) is not None
    return maker.expected(
        "A stream was put back to before the second run, which all were said to show.",
        atomic=True,
        taps={maker.tap: ["other", "s"]},
        as_of=[{"commit": first, "ends": {"s": 1, "other": 1}}, {"commit": second, "ends": None}],
    )

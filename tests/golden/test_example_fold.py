"""What examples/newest.mjs makes of transactions is what Singerlake makes of them, whatever they are."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from singerlake.format.exact_json import encode
from singerlake.format.schema_hash import schema_hash
from singerlake.format.state import fold
from singerlake.format.state import transactions as tx
from singerlake.format.state.additions import Conflict
from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Manifest, Run, SchemaVersion, StreamSchema

DRIVER = Path(__file__).with_name("example_fold.mjs")
HISTORIES = 400
STEPS = 25
IDS = [f"{number:016}" for number in range(9)]
OBJECTS = [(letter * 64, copy) for letter in "ab" for copy in (1, 2)]
SCHEMAS: list[dict[str, Any]] = [{"type": "object", "maximum": number} for number in (1, 1.0, 2**63)]
HASHES = [schema_hash(schema) for schema in SCHEMAS]
AT = [f"2026-01-01T00:00:0{second}Z" for second in range(3)]
COMMITS = [f"20260101T00000{second}.000000Z-0000000000000000" for second in range(3)]


class History:
    """Transactions, many of which fit: each is made from the state that the ones before it give."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self.begun = fold.empty(tap="t", stream="s", store="log", lineage="l", created=AT[0], transaction_id="birth")
        if seed % 3 == 0:
            # Another schema has the hash of the first one.
            held = SchemaVersion(schema=SCHEMAS[1], first_offset=0, first_seen=AT[0])
            self.begun = msgspec.structs.replace(self.begun, versions={HASHES[0]: "v1"}, schemas={HASHES[0]: held})
        self.transactions: list[tx.Transaction] = []
        self.states: list[Manifest | Conflict] = []
        state = self.begun
        for step in range(STEPS):
            change = self._change(state)
            transaction = tx.Transaction(id=f"t{step}", at=self._random.choice(AT), change=change)
            after = fold.apply(state, transaction)
            self.transactions.append(transaction)
            self.states.append(after)
            state = state if isinstance(after, Conflict) else after

    def _change(self, state: Manifest) -> tx.Change:
        if not isinstance(state.prepared, msgspec.UnsetType) and self._random.random() < 0.8:
            return tx.Settle(commit=state.prepared.commit, committed=self._random.random() < 0.7)
        kinds = [self._add, self._replace, self._retire, self._collect, self._rarely]
        return self._random.choices(kinds, (4, 4, 1, 4, 2))[0](state)

    def _file(self, version: str, messages: int | None = None) -> NewFile:
        count = messages or self._random.randint(1, 3)
        erased = self._random.choice([0, 0, 0, 1])
        rows = []
        for message in range(count):
            if self._random.random() < 0.4:
                name, copy = self._random.choice(OBJECTS)
                rows.append(Attached(message, "p", None, name, 1, "x", copy))
        id = self._random.choice(IDS)
        return NewFile(
            id=id,
            path=f"x/{id}",
            version=version,
            messages=count,
            records=count - erased,
            bytes=9,
            raw_bytes=9,
            sha256=self._random.choice("000001") * 64,
            first=AT[0],
            last=AT[1],
            members=((0, count),),
            erased=erased,
            attached=tuple(rows),
        )

    def _addition(self) -> dict[str, Any]:
        files = tuple(self._file(self._random.choice(HASHES)) for _ in range(self._random.randint(0, 3)))
        schemas = {
            name: StreamSchema(schema=schema, key_properties=(self._random.choice("kl"),))
            for name, schema in zip(HASHES, SCHEMAS, strict=True)
            if self._random.random() < 0.8
        }
        return {"files": files, "schemas": schemas}

    def _add(self, state: Manifest) -> tx.Change:
        kind = self._random.choice(["add", "add", "attach", "together", "prepare"])
        if kind == "together":
            return tx.AddTogether(
                parts=tuple(tx.AddFiles(**self._addition()) for _ in range(self._random.randint(0, 2)))
            )
        if kind == "prepare":
            return tx.PrepareFiles(commit=self._random.choice(COMMITS), **self._addition())
        return (tx.AddFiles if kind == "add" else tx.AttachFiles)(**self._addition())

    def _replace(self, state: Manifest) -> tx.Change:
        start = self._random.randint(0, len(state.files))
        old = list(state.files)[start : start + self._random.randint(0, 3)]
        new: list[NewFile] = []
        if old and self._random.random() < 0.6:
            new = [self._joined(old)]
        elif old:
            new = [self._joined([file]) for file in old]
        ids = [file.id for file in old]
        if self._random.random() < 0.1:
            self._random.shuffle(ids)
        kind = self._random.choice([tx.ReplaceFiles, tx.EraseFiles])
        return kind(old=tuple(ids), new=tuple(new))

    def _joined(self, old: list[Any]) -> NewFile:
        """One file in the place of others; some of its records are erased, or its rows gone, out of order or new."""
        rows, before = [], 0
        for file in old:
            rows += [msgspec.structs.replace(row, message=row.message + before) for row in file.attached]
            before += file.messages
        if rows and self._random.random() < 0.3:
            rows.pop(self._random.randrange(len(rows)))
        if self._random.random() < 0.3:
            rows.reverse()
        made = self._file(old[0].version, before)
        records, holes = sum(file.records for file in old), sum(file.erased for file in old)
        more = self._random.choice([0, 0, 1, -1])
        lost = self._random.choice([more, more, 0, 1])
        return msgspec.structs.replace(
            made,
            attached=tuple(rows) if self._random.random() < 0.9 else made.attached,
            records=max(0, records - lost),
            erased=max(0, holes + more),
        )

    def _retire(self, state: Manifest) -> tx.Change:
        named = [(id, f"x/{self._random.choice([id, *IDS])}") for id in self._random.choices(IDS, k=2)]
        name, copy = self._random.choice(OBJECTS)
        name = name if copy == 1 else f"{name}.{copy}"
        named.append((name, f"_files/{name[:2]}/{name}"))
        return tx.RetireFiles(files=tuple(self._random.sample(named, self._random.randint(1, 3))))

    def _collect(self, state: Manifest) -> tx.Change:
        names = [*IDS, *(file.id for file in state.retired), *(file.id for file in state.retired)]
        steps: dict[str, list[str]] = {"shown": [], "deleted": [], "forgotten": []}
        for name in self._random.choices(names, k=3):
            known = state.retired_by_id.get(name)
            step = "shown" if known is None or not known.shown else "deleted" if not known.deleted else "forgotten"
            steps[step if self._random.random() < 0.9 else self._random.choice([*steps])].append(name)
        since = {name: self._random.choice(AT) for name in self._random.choices(names, k=2)}
        return tx.CollectFiles(
            shown=tuple(steps["shown"]),
            deleted=tuple(steps["deleted"]),
            forgotten=tuple(steps["forgotten"]),
            since=since if self._random.random() < 0.3 else msgspec.UNSET,
        )

    def _rarely(self, state: Manifest) -> tx.Change:
        run = Run(id="r", writer="w", started=AT[0])
        stored = [each for each in [self.begun, *self.states] if isinstance(each, Manifest)]
        stored = [each for each in stored if isinstance(each.prepared, msgspec.UnsetType)]
        manifest = self._random.choice([*stored, state.shown])
        if self._random.random() < 0.3:
            closed = self._random.choice([None, "postgres"])
            lineage = self._random.choice("lm")
            manifest = msgspec.structs.replace(manifest, lineage=lineage, lake_id="i", closed=closed)
        return self._random.choice(
            [
                tx.RecordRun(run=run),
                tx.ExpireFiles(before=self._random.randint(0, state.next_offset + 1), lineage=state.lineage or ""),
                tx.ExpireFiles(before=self._random.randint(0, state.next_offset), lineage="other"),
                tx.Rebase(manifest=manifest),
                tx.Settle(commit=COMMITS[0], committed=True),
                *([tx.Close(successor="postgres")] if self._random.random() < 0.1 else ()),
            ]
        )


def numbers(text: bytes) -> Any:
    """JSON with the numbers of JavaScript."""
    return json.loads(text, parse_int=float)


def told(state: dict[str, Any]) -> dict[str, Any]:
    """What a reader of messages has to know of a state."""
    names = ("transaction", "store", "lake_id", "lineage", "next_offset", "versions", "files", "closed", "settled")
    schemas = {
        name: [each[key] for key in ("schema", "key_properties", "first_offset", "first_seen")]
        for name, each in state["schemas"].items()
    }
    retired = {each["id"]: {key: value for key, value in each.items() if value} for each in state.get("retired", ())}
    prepared = (state.get("prepared") or {}).get("commit")
    files = [{key: value for key, value in file.items() if value not in (0, [])} for file in state["files"]]
    return {
        **{name: state.get(name) for name in names},
        "files": files,
        "schemas": schemas,
        "retired": retired,
        "prepared": prepared,
    }


@pytest.fixture(scope="module")
def histories() -> list[History]:
    return [History(seed) for seed in range(HISTORIES)]


def test_a_history_gives_the_same_states(histories: list[History]) -> None:
    lines = b""
    for each in histories:
        transactions = b",".join(encode(tx.as_written(transaction)) for transaction in each.transactions)
        lines += b'{"state":%b,"transactions":[%b]}\n' % (to_json(each.begun), transactions)
    run = subprocess.run(["node", DRIVER], input=lines, stdout=subprocess.PIPE, check=True)
    for history, line in zip(histories, run.stdout.splitlines(), strict=True):
        for transaction, mine, theirs in zip(history.transactions, history.states, numbers(line), strict=True):
            about = transaction, mine
            if isinstance(mine, Conflict):
                assert theirs is None, about
            else:
                assert theirs is not None, about
                assert told(theirs) == told(numbers(to_json(mine))), about


def test_histories_have_enough_of_each(histories: list[History]) -> None:
    fits, conflicts = Counter[str](), Counter[str]()
    for each in histories:
        for transaction, state in zip(each.transactions, each.states, strict=True):
            counted = conflicts if isinstance(state, Conflict) else fits
            counted[type(transaction.change).__name__] += 1
    kinds = {each.__name__ for each in (tx.AddFiles, tx.AttachFiles, tx.AddTogether, tx.PrepareFiles, tx.Settle)}
    kinds |= {each.__name__ for each in (tx.ReplaceFiles, tx.EraseFiles, tx.ExpireFiles, tx.RetireFiles)}
    kinds |= {each.__name__ for each in (tx.CollectFiles, tx.Rebase)}
    print(fits, conflicts)
    assert min(fits[kind] for kind in kinds) > 20
    assert min(conflicts[kind] for kind in kinds) > 20

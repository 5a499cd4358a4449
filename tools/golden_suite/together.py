"""Cases of the suite about transactions that add what several writers brought."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from singerlake.format.state.model import Run, StreamSchema
from singerlake.format.state.transactions import AddFiles, AddTogether, Transaction
from singerlake.stores.commit import commit_transaction
from singerlake.stores.port import Loaded
from tools.golden_suite.cases import case
from tools.golden_suite.maker import V1, V2, Maker, file_bytes, record


def brought(maker: Maker, schema: Any, run: str, lines: Sequence[bytes]) -> AddFiles:
    """A file on storage, and the change that would add it alone."""
    maker.clock.sleep(1)
    id = maker.ids()
    body = file_bytes(schema, [lines], maker.header(id), maker.stream)
    file = maker.described(schema, body, id, [lines])
    maker.put(maker.prefix + file.path, body)
    told = Run(id=run, writer="suite", started=maker.now(), updated=maker.now(), status="finished")
    return AddFiles(files=(file,), schemas={file.version: StreamSchema(schema=schema, key_properties=("n",))}, run=told)


def commit(maker: Maker, *parts: AddFiles) -> None:
    """Several writers' files in one transaction."""
    store = maker.store()
    base = store.load()
    assert base is not None
    transaction = Transaction(id=maker.ids(), at=maker.now(), change=AddTogether(parts=parts))
    outcome = commit_transaction(store, base, transaction, clock=maker.clock)
    assert isinstance(outcome, Loaded)


@case
def log_with_files_that_were_added_together_ahead_of_its_manifest(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(0)])
    before = maker.manifest_body()
    lines = [[record(1), record(2)], [record(3)], [record(4)]]
    commit(
        maker,
        brought(maker, V2, "run-one", lines[0]),
        brought(maker, V1, "run-two", lines[1]),
        brought(maker, V2, "run-one", lines[2]),
    )
    maker.messages += [line for each in lines for line in each]
    maker.add(V1, [record(5)])
    maker.put(maker.manifest_key, before)
    return maker.expected("Two writers' files are in one transaction of the log; manifest.json is older.")


@case
def log_with_files_that_were_added_together_and_were_known(maker: Maker) -> dict[str, Any]:
    maker.add(V1, [record(0)])
    before = maker.manifest_body()
    known, fresh = brought(maker, V1, "run-one", [record(1)]), brought(maker, V2, "run-two", [record(2)])
    commit(maker, known)
    commit(maker, known, fresh)
    maker.messages += [record(1), record(2)]
    maker.put(maker.manifest_key, before)
    return maker.expected("One of the files in a transaction of several was listed already, and is listed once.")

"""Eight processes that commit to and trim one log in DynamoDB at once."""

from __future__ import annotations

import pytest

from singerlake.aws.settings import S3Settings
from singerlake.clock import SystemClock, random_id
from singerlake.format.state.additions import Conflict
from singerlake.format.state.transactions import Transaction
from singerlake.storage.local.storage import LocalStorage
from singerlake.stores.commit import commit_transaction
from singerlake.stores.dynamodb.client import DynamoTable
from singerlake.stores.dynamodb.log import DynamoLog
from singerlake.stores.numbered import NumberedStore
from singerlake.stores.place import StreamPlace
from singerlake.stores.port import Loaded
from tests.format.state.test_fold import add, check_log, new_file
from tests.processes.forked import FORKED
from tests.stores.dynamodb.dynamo import AMAZONS, Stream, first_state, open_place

PROCESSES = 8
COMMITS = 20


@pytest.fixture(params=AMAZONS)
def stream(request: pytest.FixtureRequest) -> Stream:
    return open_place(request)


def work(settings: S3Settings, endpoint_url: str, table: str, table_id: str, folder: str, name: str) -> None:
    clock = SystemClock()
    storage = LocalStorage(folder, clock=clock, ids=random_id)
    dynamo = DynamoTable(table, settings, endpoint_url=endpoint_url, clock=clock)
    place = StreamPlace(storage, "t", "s", clock, random_id)
    store = NumberedStore("dynamodb", DynamoLog(place, dynamo, table_id=table_id), place)
    state: Loaded | Conflict = store.load() or store.create(first_state())
    for number in range(COMMITS):
        assert isinstance(state, Loaded)
        transaction = Transaction(id=random_id(), at="2026", change=add(new_file(f"{name}-{number}")))
        state = commit_transaction(store, state, transaction, clock=clock)
        if number % 7 == 3:
            store.trim(keep=5, dry_run=False)


@pytest.mark.thorough
def test_eight_processes_of_twenty_commits_lose_nothing_and_double_nothing(stream: Stream, tmp_path: object) -> None:
    place = (stream.settings, stream.endpoint_url, stream.table_name, stream.table_id, str(tmp_path))
    processes = [FORKED.Process(target=work, args=(*place, f"w{number}")) for number in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * PROCESSES
    storage = LocalStorage(str(tmp_path), clock=stream.clock, ids=random_id)
    place = StreamPlace(storage, "t", "s", stream.clock, random_id)
    log = DynamoLog(place, stream.table(), table_id=stream.table_id)
    loaded = NumberedStore("dynamodb", log, place).load()
    assert loaded is not None
    check_log(loaded.manifest)
    expected = {f"w{process}-{number}" for process in range(PROCESSES) for number in range(COMMITS)}
    assert {file.id for file in loaded.manifest.files} == expected
    assert loaded.manifest.transaction.number == PROCESSES * COMMITS

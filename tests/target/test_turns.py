"""Where the threads of a target commit in turn: where all that they wait for is a local disk."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from singerlake.clock import SystemClock, random_id
from singerlake.interpreter import threads
from singerlake.interpreter.threads import Turns
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from singerlake.stores.lockfile import LockfileStore
from singerlake.stores.port import Abilities
from target_singerlake.files import publishing
from target_singerlake.files.publishing import may_ask_the_disk_alone
from target_singerlake.settings import settings_of
from tests.target.support import config, ingest, manifest, record, schema, state

QUEUE = "https://sqs.eu-west-1.amazonaws.com/123456789012/lake.fifo"


class Far(LocalStorage):
    """As a bucket tells of itself."""

    @property
    def near(self) -> bool:
        return False


def lake_in(folder: Path, kind: type[LocalStorage] = LocalStorage) -> Lake:
    return Lake(kind(folder, clock=SystemClock(), ids=random_id), clock=SystemClock(), ids=random_id)


@pytest.mark.parametrize(
    ("store", "alone"),
    [(None, True), ("lockfile", True), ("log", True), ("merge", True), ("dynamodb", False), ("postgres", False)],
)
def test_the_setting_says_whether_commits_ask_the_disk_alone(tmp_path: Path, store: str | None, alone: bool) -> None:
    assert may_ask_the_disk_alone(lake_in(tmp_path), settings_of(config(tmp_path, manifest_store=store))) is alone


def test_a_network_is_waited_for_by_all_threads_at_once(tmp_path: Path) -> None:
    assert not may_ask_the_disk_alone(lake_in(tmp_path, Far), settings_of(config(tmp_path)))
    queued = settings_of(config(tmp_path, manifest_store="log", commit_queue_url=QUEUE))
    assert not may_ask_the_disk_alone(lake_in(tmp_path), queued)


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[Turns]:
    """The groups in which turns are taken, once for each turn."""
    groups: list[Turns] = []
    real = Turns.taken

    def counting(self: Turns) -> AbstractContextManager[None]:
        groups.append(self)
        return real(self)

    monkeypatch.setattr(Turns, "taken", counting)
    return groups


STREAMS = [f"s{number}" for number in range(30)]
LINES = [
    *(schema(stream) for stream in STREAMS),
    *(record(id, stream) for id in range(20) for stream in STREAMS),
    state({"n": 1}),
]


def test_many_streams_are_committed_by_threads_that_take_turns(tmp_path: Path, taken: list[Turns]) -> None:
    assert ingest(tmp_path, LINES) == ['{"n": 1}']
    assert len(set(map(id, taken))) == 1
    assert len(taken) >= 2 * len(STREAMS)
    assert {manifest(tmp_path, stream).next_offset for stream in STREAMS} == {20}


@pytest.mark.parametrize("store", ["lockfile", "log", pytest.param("merge", marks=pytest.mark.thorough)])
def test_no_thread_has_a_turn_while_it_waits_for_one_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: str
) -> None:
    """Else that one waits until its patience ends. In a new lake, the first thread makes what all need."""
    monkeypatch.setattr(threads, "PATIENCE", 10.0)
    in_vain: list[str] = []
    real = threads._Turn.take

    def take(self: threads._Turn) -> None:
        real(self)
        if not self._has:
            in_vain.append(threading.current_thread().name)

    monkeypatch.setattr(threads._Turn, "take", take)
    ingest(tmp_path, LINES, manifest_store=store)
    assert in_vain == []


def test_a_lake_whose_store_turns_out_to_be_a_database_has_no_turns(
    tmp_path: Path, taken: list[Turns], monkeypatch: pytest.MonkeyPatch
) -> None:
    ingest(tmp_path, LINES)
    taken.clear()
    monkeypatch.setattr(LockfileStore, "abilities", Abilities(locks=True, followable=False))
    ingest(tmp_path, LINES)
    assert len(taken) <= publishing.NEAR_WORKERS
    assert {manifest(tmp_path, stream).next_offset for stream in STREAMS} == {40}

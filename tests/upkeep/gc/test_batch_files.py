"""Names of batch files, and which of them are old: never anything else."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.clock import SystemClock, random_id
from singerlake.storage.local.storage import LocalStorage
from singerlake.upkeep.gc.batch_files import BatchNames, is_batch_file, old_batches
from tests.fakes import FakeClock, counting_ids
from tests.storage.memory import MemoryStorage


@given(stream=st.text(max_size=200), prefix=st.sampled_from(["", "a-", "x/y/", "x/singerlake-batch-"]))
def test_every_name_is_known_again_and_comes_once(stream: str, prefix: str) -> None:
    names = BatchNames(MemoryStorage(clock=FakeClock(), ids=counting_ids()), prefix, random_id())
    keys = [names.next_key(stream, suffix) for suffix in (".jsonl", ".jsonl.gz", ".parquet")]
    assert len(set(keys)) == 3
    for key in keys:
        assert is_batch_file(key)
        assert key.isascii()
        assert key.startswith(prefix)
        assert key.count("/") == prefix.count("/")


@pytest.mark.parametrize(
    "key",
    [
        "a.jsonl",
        "raw/singerlake.json",
        "singerlake-batch-.jsonl",
        "singerlake-batch-0123456789abcdef-000001-s.jsonl.gz.bak",
        "singerlake-batch-0123456789abcdef-000001-s.csv",
        "singerlake-batch-0123456789abcdef-1-s.jsonl",
        "singerlake-batch-0123456789ABCDEF-000001-s.jsonl",
        "singerlake-batch-0123456789abcdef-000001-s.jsonl/other",
        "singerlake-batch-0123456789abcdef-000001-a b.jsonl",
    ],
)
def test_nothing_else_is_taken_for_one(key: str) -> None:
    assert not is_batch_file(key)


def test_only_old_batch_files_go(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path, clock=SystemClock(), ids=random_id)
    names = BatchNames(storage, "p/", random_id())
    keys = [names.next_key("s", ".jsonl.gz") for _ in range(3)]
    for key in (*keys, "p/mine.jsonl.gz", "singerlake-batch-note.txt"):
        storage.put(key, b"1")
    now = SystemClock().now()
    found = old_batches(storage, older_than=timedelta(hours=1), now=now)
    assert (found.old, [entry.key for entry in found.waiting]) == ([], keys)
    found = old_batches(storage, older_than=timedelta(hours=1), now=now + timedelta(hours=2))
    assert ([entry.key for entry in found.old], found.waiting) == (keys, [])

"""When a run asks far storage what it honours: beside all that it reads first, and before all that it writes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from singerlake.storage.local.storage import LocalStorage
from singerlake.storage.port import Capabilities, Refused, Written
from singerlake.stores.lockfile import LockfileStore
from singerlake.stores.port import Loaded
from tests.target.support import ingest, manifest, records, schema


class Asked:
    """Asks of a folder as of a bucket. The answer does not come before a stream's state is looked for, nor the state
    before it is asked."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        self.answered = False
        asked, looked_for = threading.Event(), threading.Event()
        answer, load = LocalStorage.capabilities, LockfileStore.load
        put, upload = LocalStorage.put, LocalStorage.upload

        def capabilities(storage: LocalStorage) -> Capabilities:
            self.times += 1
            asked.set()
            assert looked_for.wait(30)
            self.answered = True
            return answer(storage)

        def look(store: LockfileStore) -> Loaded | None:
            looked_for.set()
            assert asked.wait(30)
            return load(store)

        def checked(
            storage: LocalStorage, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None
        ) -> Written | Refused:
            assert self.answered, f"{key} was written before"
            return put(storage, key, body, if_absent=if_absent, if_match=if_match)

        def sent(storage: LocalStorage, key: str, path: Path, ready: Callable[[], object]) -> int:
            assert self.answered, f"{key} was written before"
            return upload(storage, key, path, ready)

        monkeypatch.setattr(LocalStorage, "near", property(lambda _: False))
        monkeypatch.setattr(LocalStorage, "capabilities", capabilities)
        monkeypatch.setattr(LocalStorage, "put", checked)
        monkeypatch.setattr(LocalStorage, "upload", sent)
        monkeypatch.setattr(LockfileStore, "load", look)


@pytest.mark.parametrize("stream", ["users", "others"], ids=["a known stream", "a new one"])
def test_it_asks_beside_what_it_reads_and_before_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stream: str
) -> None:
    ingest(tmp_path, [schema(), *records(1)])
    asked = Asked(monkeypatch)
    ingest(tmp_path, [schema(stream), *records(2, 3, stream=stream)])
    assert asked.answered
    assert manifest(tmp_path, stream).next_offset == 2 + (stream == "users")


def test_a_run_that_writes_nothing_does_not_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(tmp_path, [schema(), *records(1)])
    asked = Asked(monkeypatch)
    ingest(tmp_path, [schema()])
    assert asked.times == 0

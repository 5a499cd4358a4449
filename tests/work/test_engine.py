"""Threads that read many files: in order, and few where more would only be in each other's way."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from singerlake.clock import attended
from singerlake.storage.port import Storage
from singerlake.work import engine
from singerlake.work.engine import BATCH_BYTES, BATCH_FILES, NEAR_FILES, Threads
from tests.fakes import FakeClock, counting_ids
from tests.storage.memory import MemoryStorage

SMALL, LARGE = 1, BATCH_BYTES


@dataclass
class Noting:
    """A task that notes how many threads are at it at once. An item is a size and a number."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    now: int = 0
    most: list[int] = field(default_factory=list)

    def size(self, item: tuple[int, int]) -> int:
        return item[0]

    def __call__(self, storage: Storage, item: tuple[int, int]) -> int:
        (answer,) = self.together(storage, [item])
        return answer

    def together(self, storage: Storage, items: Sequence[tuple[int, int]]) -> list[int]:
        with self.lock:
            self.now += 1
            self.most.append(self.now)
        time.sleep(0.003)
        with self.lock:
            self.now -= 1
        return [number for _, number in items]


class Far(MemoryStorage):
    """A storage on another machine."""

    @property
    def near(self) -> bool:
        return False


def read(
    sizes: list[int], threads: int = 8, task: Noting | None = None, kind: type[MemoryStorage] = MemoryStorage
) -> list[int]:
    """How many threads were at it at each time."""
    task = task or Noting()
    items = list(zip(sizes, range(len(sizes)), strict=True))
    read_all = Threads(kind(clock=FakeClock(), ids=counting_ids()), threads)
    assert list(read_all(task, iter(items))) == [(item, item[1]) for item in items]
    return task.most


@pytest.fixture
def waits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For which share of the time the process runs while it reads."""
    share: float = request.param
    monkeypatch.setattr(engine, "attended", lambda work: (work(), share))


@pytest.mark.parametrize("waits", [1.0, 0.6], indirect=True)
@pytest.mark.parametrize("size", [SMALL, BATCH_BYTES // BATCH_FILES])
def test_small_files_that_come_without_waiting_are_read_by_one(waits: None, size: int) -> None:
    # The first batches may be ones between larger ones.
    assert max(read([size] * 30 * NEAR_FILES)[2:]) == 1


@pytest.mark.parametrize("waits", [0.0, 0.4], indirect=True)
def test_files_that_are_waited_for_are_read_by_all(waits: None) -> None:
    assert max(read([SMALL] * 60 * NEAR_FILES)) > 1


@pytest.mark.parametrize("waits", [1.0], indirect=True)
def test_a_storage_elsewhere_is_always_waited_for(waits: None) -> None:
    most = read([SMALL] * 60 * BATCH_FILES, kind=Far)
    assert len(most) == 60
    assert max(most) > 1


def test_a_first_file_that_is_waited_for_does_not_decide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter([0.1, 0.3])
    monkeypatch.setattr(engine, "attended", lambda work: (work(), next(shares, 1.0)))
    assert max(read([SMALL] * 90 * NEAR_FILES)[60:]) <= 1


@pytest.mark.parametrize("waits", [1.0, 0.0], indirect=True)
def test_large_files_are_read_by_all(waits: None) -> None:
    assert max(read([LARGE] * 40)) > 1


@pytest.mark.parametrize("waits", [1.0], indirect=True)
def test_small_files_between_large_ones_do_not_hold_them_up(waits: None) -> None:
    assert max(read(([LARGE] + [SMALL] * NEAR_FILES) * 20)) > 1


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_answers_come_in_the_order_of_the_items(threads: int) -> None:
    sizes = [SMALL] * 3 * NEAR_FILES + [LARGE] * 3 + [SMALL] * 5 * NEAR_FILES + [LARGE, SMALL]
    read(sizes, threads)


def test_an_error_ends_it() -> None:
    class Refusing(Noting):
        def together(self, storage: Storage, items: Sequence[tuple[int, int]]) -> list[int]:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        read([SMALL] * 5 * NEAR_FILES, task=Refusing())


def test_a_process_that_sleeps_does_not_run() -> None:
    answer, share = attended(lambda: time.sleep(0.1))
    assert answer is None
    assert 0 <= share < 0.5
    assert attended(lambda: "at once")[0] == "at once"

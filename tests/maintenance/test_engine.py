"""Threads that read many files: in order, and one alone where several would only be in each other's way."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import pytest

from singerlake.clock import attended
from singerlake.maintenance import engine
from singerlake.maintenance.engine import BATCH_BYTES, BATCH_FILES, Threads
from singerlake.storage.memory import MemoryStorage
from singerlake.storage.port import Storage
from tests.fakes import FakeClock, counting_ids

SMALL, LARGE = 1, BATCH_BYTES


@dataclass
class Noting:
    """A task that notes which thread has read each item, a size and a number."""

    by: dict[int, int] = field(default_factory=dict)

    def size(self, item: tuple[int, int]) -> int:
        return item[0]

    def __call__(self, storage: Storage, item: tuple[int, int]) -> int:
        self.by[item[1]] = threading.get_ident()
        return item[1]


class Far(MemoryStorage):
    """A storage on another machine."""

    @property
    def near(self) -> bool:
        return False


def read(
    sizes: list[int], threads: int = 4, task: Noting | None = None, kind: type[MemoryStorage] = MemoryStorage
) -> list[int]:
    """Which thread has read each item."""
    task = task or Noting()
    items = list(zip(sizes, range(len(sizes)), strict=True))
    read_all = Threads(kind(clock=FakeClock(), ids=counting_ids()), threads)
    assert list(read_all(task, iter(items))) == [(item, item[1]) for item in items]
    return [task.by[number] for number in range(len(sizes))]


@pytest.fixture
def waits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """For which share of the time a thread runs that reads."""
    share: float = request.param
    monkeypatch.setattr(engine, "attended", lambda work: (work(), share))


@pytest.mark.parametrize("waits", [1.0, 0.6], indirect=True)
def test_small_files_that_come_without_waiting_are_read_by_one_thread(waits: None) -> None:
    by = read([SMALL] * 60 * BATCH_FILES)
    assert by.count(threading.get_ident()) == 59 * BATCH_FILES


@pytest.mark.parametrize("waits", [0.0, 0.4], indirect=True)
def test_files_that_are_waited_for_are_read_by_several(waits: None) -> None:
    by = read([SMALL] * 60 * BATCH_FILES)
    assert by.count(threading.get_ident()) < 10 * BATCH_FILES


@pytest.mark.parametrize("waits", [1.0], indirect=True)
def test_a_storage_elsewhere_is_always_waited_for(waits: None) -> None:
    assert threading.get_ident() not in read([SMALL] * 60 * BATCH_FILES, kind=Far)


def test_a_first_file_that_is_waited_for_does_not_decide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = iter([0.1, 0.3])
    monkeypatch.setattr(engine, "attended", lambda work: (work(), next(shares, 1.0)))
    by = read([SMALL] * 60 * BATCH_FILES)
    assert by.count(threading.get_ident()) > 50 * BATCH_FILES


@pytest.mark.parametrize("waits", [1.0, 0.0], indirect=True)
def test_large_files_are_read_by_others(waits: None) -> None:
    assert threading.get_ident() not in read([LARGE] * 40)


@pytest.mark.parametrize("waits", [1.0], indirect=True)
def test_small_files_between_large_ones_do_not_hold_them_up(waits: None) -> None:
    assert threading.get_ident() not in read(([LARGE] + [SMALL] * BATCH_FILES) * 20)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_answers_come_in_the_order_of_the_items(threads: int) -> None:
    sizes = [SMALL] * 3 * BATCH_FILES + [LARGE] * 3 + [SMALL] * 5 * BATCH_FILES + [LARGE, SMALL]
    read(sizes, threads)


def test_an_error_ends_it() -> None:
    class Refusing(Noting):
        def __call__(self, storage: Storage, item: tuple[int, int]) -> int:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        read([SMALL] * 5 * BATCH_FILES, task=Refusing())


def test_a_thread_that_sleeps_does_not_run() -> None:
    answer, share = attended(lambda: time.sleep(0.1))
    assert answer is None
    assert 0 <= share < 0.5
    assert attended(lambda: "at once")[0] == "at once"

"""The probe tells the truth about every way in which a store may treat conditions."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta, timezone

import pytest

from singerlake.clock import SystemClock, random_id
from singerlake.errors import AccessDenied, StorageUnavailable
from singerlake.storage.memory import MemoryStorage, Step
from singerlake.storage.port import Capabilities, Refused, Written
from singerlake.storage.probe import PROBE_PREFIX, RACERS, probe


class AdjustableClock(SystemClock):
    moment = datetime(2026, 1, 1, tzinfo=timezone.utc)

    def now(self) -> datetime:
        return self.moment


class CheckThenAct(MemoryStorage):
    """Looks first and writes later, so that all who looked in time believe they have won."""

    def __init__(self) -> None:
        super().__init__(clock=SystemClock(), ids=random_id)
        self._looked = threading.Barrier(RACERS)

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        stored = self.get(key)
        if if_absent and stored is None:
            self._looked.wait(10)
            return super().put(key, body)
        return super().put(key, body, if_absent=if_absent, if_match=if_match)


class NoDelete(MemoryStorage):
    """Permits everything but DELETE."""

    def delete(self, key: str, *, if_match: str | None = None) -> bool:
        raise AccessDenied("no delete", key=key)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, Capabilities(conditional_put=True, conditional_delete=True)),
        ({"ignore_delete_conditions": True}, Capabilities(conditional_put=True, conditional_delete=False)),
        ({"ignore_conditions": True}, Capabilities(conditional_put=False, conditional_delete=False)),
    ],
)
def test_the_probe_finds_what_the_store_declares_and_leaves_nothing(
    options: dict[str, bool], expected: Capabilities
) -> None:
    storage = MemoryStorage(clock=SystemClock(), ids=random_id, **options)
    assert storage.capabilities() == expected
    assert probe(storage) == expected
    assert list(storage.list("")) == []


def test_a_store_that_checks_and_then_acts_is_found_out_by_the_race() -> None:
    assert probe(CheckThenAct()).conditional_put is False


def test_without_the_right_to_delete_probes_do_not_pile_up() -> None:
    clock = AdjustableClock()
    storage = NoDelete(clock=clock, ids=random_id)
    counts = []
    for _ in range(12):
        assert probe(storage) == Capabilities(conditional_put=True, conditional_delete=False)
        clock.moment += timedelta(hours=5)
        counts.append(len(list(storage.list(PROBE_PREFIX))))
    assert counts[-1] == counts[2]


def test_a_store_that_does_not_answer_is_an_error_and_not_a_capability() -> None:
    storage = MemoryStorage(clock=SystemClock(), ids=random_id)

    def fault(step: Step) -> None:
        if step.operation == "put":
            raise StorageUnavailable("down")

    storage.hook = fault
    with pytest.raises(StorageUnavailable):
        probe(storage)

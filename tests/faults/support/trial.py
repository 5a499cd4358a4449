"""Eight writers at once at one stream, on storage that does what storage does in the field.

A writer that fails is followed by another one, which sends what the first was not told is committed under other ids,
as the next run of a pipeline does. So what somebody was told is there exactly once, and what nobody was told may be
there as well: a documented resend.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from singerlake import errors
from singerlake.errors import RetryableError, UnknownOutcomeError
from tests.faults.support.crew import Crew, Worker
from tests.faults.support.places import Place
from tests.servers.fault_proxy.proxy import ALWAYS, Fault, FaultProxy
from tests.servers.fault_proxy.quirks import CEPH_16
from tests.servers.nginx import balanced

WRITERS = 8
VERSIONS = 3
FILES = int(os.environ.get("SINGERLAKE_TEST_TRIAL_FILES", "0"))
"""Of each writer, in trials of each fault alone. Without it they are for every run of the tests: short, and most faults
at once."""
_SECONDS = 240.0
"""In which a writer has to end."""
_MOST = 100
"""Writers in one trial, before it counts as one that does not end."""


@dataclass(frozen=True)
class Road:
    """The way of the writers to a lake that is not on this machine, and to the database of its store, where there is
    one."""

    crew: Crew
    reached: Place
    storage: FaultProxy
    database: FaultProxy | None

    @property
    def on(self) -> str:
        return self.reached.kind.on

    @property
    def proxies(self) -> list[FaultProxy]:
        return [self.storage, *([self.database] if self.database else [])]


@dataclass(frozen=True)
class Outcome:
    """What became of a trial's files."""

    acknowledged: int
    lost: int
    listed_twice: int
    resent: int
    failures: dict[str, int]
    """Writers that failed, for each error."""

    def __str__(self) -> str:
        failed = ", ".join(f"{count} {name}" for name, count in self.failures.items()) or "no failure"
        return (
            f"{self.acknowledged} files acknowledged, {self.lost} lost, {self.listed_twice} listed twice, "
            f"{self.resent} resent after {failed}"
        )


Trouble = Callable[[Road], AbstractContextManager[Place]]
"""Makes trouble while its block runs, and gives the place as writers have to reach it to meet it."""


def _often(make: Callable[..., Fault], matches: str, probability: float, **options: Any) -> Fault:
    """A fault that the next such request meets for certain, and later ones by chance; gives the first."""
    certain = make(matches, **options)
    make(matches, times=ALWAYS, probability=probability, **options)
    return certain


def sent_twice(probability: float, methods: str = "PUT|DELETE") -> Trouble:
    """Writes reach their server twice; the client gets the second answer. Those are the methods that a balancer takes
    to have no effect the second time."""

    @contextmanager
    def trouble(road: Road) -> Iterator[Place]:
        faults = [_often(road.storage.twice, f"^({methods}) ", probability)]
        if road.database and road.on == "dynamodb":
            faults.append(_often(road.database.twice, "TransactWriteItems", probability))
        yield road.reached
        assert all(fault.hits for fault in faults)

    return trouble


@contextmanager
def probes_sent_twice(road: Road) -> Iterator[Place]:
    """Some writers' first questions what the storage honours are refused by their own success, those of others not."""
    fault = road.storage.twice("^PUT .*/_singerlake_probe/", times=5 * WRITERS)
    yield road.reached
    assert fault.hits


def busy_after_the_effect(probability: float, code: str = "SlowDown") -> Trouble:
    """A storm of 503 by servers that have done what they were asked. ``code`` is the storage's word for it."""

    @contextmanager
    def trouble(road: Road) -> Iterator[Place]:
        slow: dict[str, Any] = {"status": 503, "code": code, "after": True}
        faults = [_often(road.storage.error, "^(PUT|DELETE|POST) ", probability, **slow)]
        if road.database and road.on == "dynamodb":
            slow["code"] = "ServiceUnavailable"
            faults.append(_often(road.database.error, "TransactWriteItems", probability, **slow))
        if road.database and road.on == "postgres":
            faults.append(_often(road.database.drop, "^COMMIT", probability, after=True))
        yield road.reached
        assert all(fault.hits for fault in faults)

    return trouble


def gone(seconds: float, times: int, upload: str = r"^PUT .*\.singer\.gz$") -> Trouble:
    """Servers that are gone for a time in the middle of the work, the database, too. ``upload`` is a request that puts
    a file."""

    @contextmanager
    def trouble(road: Road) -> Iterator[Place]:
        over = threading.Event()

        def leave() -> int:
            left = 0
            while left < times:
                work = road.storage.watch(upload)
                while work.hits < WRITERS // 2:
                    if over.wait(0.01):
                        return left
                for proxy in road.proxies:
                    proxy.shut(seconds)
                left += 1
                over.wait(seconds)
            return left

        with ThreadPoolExecutor(1) as pool:
            leaving = pool.submit(leave)
            try:
                yield road.reached
            finally:
                over.set()
        assert leaving.result() > 0

    return trouble


def impatient(trouble: Trouble) -> Trouble:
    """Writers that do not wait for servers that are gone, and fail."""

    @contextmanager
    def without_patience(road: Road) -> Iterator[Place]:
        with trouble(road) as place:
            yield place.without_patience()

    return without_patience


def acting_as(*quirks: str) -> Trouble:
    """A server of S3 with these quirks."""

    @contextmanager
    def trouble(road: Road) -> Iterator[Place]:
        road.storage.act_as(*quirks)
        yield road.reached

    return trouble


@contextmanager
def behind_nginx(road: Road) -> Iterator[Place]:
    """Two servers that are killed in turn, each when it has done a write and told nobody; nginx asks the other."""
    with balanced(road.storage.url, road.crew.folder / "nginx") as balancer:
        with balancer.dying_in_turn(within=8) as died:
            yield road.reached.by_way_of(balancer.url)
        assert died
        assert balancer.refused_again


def together(*troubles: Trouble) -> Trouble:
    """All of these at once. Where several of them have an answer to one request, the first gives it."""

    @contextmanager
    def trouble(road: Road) -> Iterator[Place]:
        with ExitStack() as stack:
            for each in troubles:
                place = stack.enter_context(each(road))
            yield place

    return trouble


ALONE: dict[str, Trouble] = {
    "sent-twice": sent_twice(0.3),
    "probes-sent-twice": probes_sent_twice,
    "503-after-the-effect": busy_after_the_effect(0.2),
    "gone-for-20-s": gone(20, times=1),
    "gone-for-1-s-again-and-again": gone(1, times=20),
    "gone-while-nobody-waits": impatient(gone(1, times=3)),
    **{quirk: acting_as(quirk) for quirk in ("delete-conditions-ignored", "only-bare-etags", "losers-get-500")},
    "ceph-16": acting_as(*CEPH_16),
    "nginx": behind_nginx,
}
AT_ONCE: dict[str, Trouble] = {
    "all-of-it": together(acting_as(*CEPH_16), sent_twice(0.1), busy_after_the_effect(0.05), gone(0.5, times=1)),
    "nginx": behind_nginx,
}
IN_CLOUDS: dict[str, Trouble] = {
    "az": together(sent_twice(0.1), busy_after_the_effect(0.05, "InternalError"), gone(0.5, times=1)),
    "gs": together(sent_twice(0.1, "POST|DELETE"), busy_after_the_effect(0.05), gone(0.5, 1, "^POST .*/upload/")),
}
"""For each cloud, by the scheme of its roots."""


def run(road: Road, trouble: Trouble, *, files: int) -> Outcome:
    """Have eight writers commit so many files each, whatever it takes; what became of those."""
    crew = road.crew
    finished: list[Worker] = []
    failures = Counter[str]()
    with trouble(road) as reached:

        def start(number: int, files: int) -> tuple[int, Worker]:
            name = f"writer{number}-{len(finished)}"
            return number, crew.start(name, place=reached, files=files, schema=number % VERSIONS)

        running = [start(number, files) for number in range(WRITERS)]
        while running:
            number, worker = running.pop(0)
            code = worker.ended(_SECONDS)
            finished.append(worker)
            left = len(worker.files) - len(worker.acknowledged)
            if code != 0:
                failures[_failure(worker)] += 1
                assert len(finished) < _MOST, worker.log
            if left:
                running.append(start(number, left))
    for proxy in road.proxies:
        proxy.calm()
    return _counted(crew, finished, failures)


def _counted(crew: Crew, finished: list[Worker], failures: dict[str, int]) -> Outcome:
    state = crew.place.state()
    assert state is not None
    listed = Counter(file.id for file in state.files)
    told = [id for worker in finished for id in worker.acknowledged]
    return Outcome(
        acknowledged=len(told),
        lost=sum(id not in listed for id in told),
        listed_twice=sum(count > 1 for count in listed.values()),
        resent=len(set(listed) - set(told)),
        failures=failures,
    )


def _failure(worker: Worker) -> str:
    """The error that a writer ended with, which has to be one after which it may be run again."""
    for name in re.findall(r"^(\w+): ", worker.log, re.MULTILINE):
        if issubclass(getattr(errors, name, object), (RetryableError, UnknownOutcomeError)):
            return str(name)
    raise AssertionError(worker.log)

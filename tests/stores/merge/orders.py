"""Every order in which the requests of a few actors can come between each other, as far as a few changes from one to
another go: most races need no more than two."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from tests.storage.memory import Step
from tests.stores.merge.merging import Crew

Act = Callable[[], object]


class _Turns:
    """Threads that run one at a time, each up to its next request to storage, in an order that is given."""

    def __init__(self, acts: list[Act]) -> None:
        self._acts = acts
        self._mine = [threading.Semaphore(0) for _ in acts]
        self._back = threading.Semaphore(0)
        self._who = threading.local()
        self._done = [False for _ in acts]
        self.errors: list[BaseException] = []

    def hook(self, step: Step) -> None:
        place = getattr(self._who, "place", None)
        if place is not None and not step.done:
            self._back.release()
            self._mine[place].acquire()

    def run(self, switches: tuple[tuple[int, int], ...]) -> list[tuple[int, list[int]]]:
        """``switches``: before which step to go over to whom. Gives, for each step, who might have run instead."""
        threads = [threading.Thread(target=self._act, args=(place,), daemon=True) for place in range(len(self._acts))]
        for thread in threads:
            thread.start()
        planned, now, others = dict(switches), 0, []
        step = 0
        while not all(self._done):
            if self._done[now]:
                now = self._done.index(False)
            if step in planned and not self._done[planned[step]]:
                now = planned[step]
            others.append((now, [place for place, done in enumerate(self._done) if not done and place != now]))
            self._mine[now].release()
            self._back.acquire()
            step += 1
        for thread in threads:
            thread.join()
        return others

    def _act(self, place: int) -> None:
        self._who.place = place
        self._mine[place].acquire()
        try:
            self._acts[place]()
        except BaseException as error:
            self.errors.append(error)
        finally:
            self._done[place] = True
            self._back.release()


@dataclass
class Race:
    """One stream and what happens to it at once. ``after`` looks at what came of it."""

    crew: Crew
    acts: list[Act]
    after: Callable[[], None]


def every_order(make: Callable[[], Race], *, switches: int) -> int:
    """Run a race in all orders with at most so many changes at a time of nobody's choosing; how many there were."""
    waiting: list[tuple[tuple[int, int], ...]] = [()]
    count = 0
    while waiting:
        plan = waiting.pop()
        race = make()
        turns = _Turns(race.acts)
        race.crew.storage.hook = turns.hook
        others = turns.run(plan)
        race.crew.storage.hook = lambda step: None
        for error in turns.errors:
            raise AssertionError(f"in the order {plan}") from error
        try:
            race.after()
        except AssertionError as error:
            raise AssertionError(f"in the order {plan}") from error
        count += 1
        if len(plan) < switches:
            begin = plan[-1][0] + 1 if plan else 0
            waiting += [
                (*plan, (step, other)) for step, (_, able) in enumerate(others) if step >= begin for other in able
            ]
    return count

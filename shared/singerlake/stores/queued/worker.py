"""The loop of a committer: take messages, commit them, and only then delete them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from singerlake.clock import Backoff, Clock
from singerlake.errors import SingerlakeError
from singerlake.stores.queued.committer import Committer
from singerlake.stores.queued.port import Queue, Received

logger = logging.getLogger(__name__)

MOST = 10
"""Messages that a queue gives at once."""
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0


@dataclass
class Worker:
    """One thread's loop. It ends once ``ended`` is set, after the batch that is at work."""

    queue: Queue
    committer: Committer
    clock: Clock
    wait: int = 5
    ended: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._backoff = Backoff(self.clock, first=_FIRST_WAIT, longest=_LONGEST_WAIT)

    def run(self, *, idle_exit: float | None = None) -> None:
        """Work until ``ended``, or until no message came for ``idle_exit`` seconds. A queue or a storage that fails is
        waited for, and told in the log. Raises nothing that may pass."""
        busy_at = self.clock.monotonic()
        while not self.ended.is_set():
            taken = self.once()
            now = self.clock.monotonic()
            if taken:
                busy_at = now
            elif idle_exit is not None and now - busy_at >= idle_exit:
                return

    def once(self) -> int:
        """One batch; how many messages it had. 0 also where the queue failed, after a wait."""
        try:
            messages = self.queue.receive(MOST, wait=self.wait)
        except SingerlakeError as error:
            logger.warning("the queue %s gives no messages: %s", self.queue.name, error)
            self._rest()
            return 0
        done = self.committer.handle(messages) if messages else []
        if done:
            self._delete(done)
        if len(done) < len(messages):
            self._rest()
        else:
            self._backoff = Backoff(self.clock, first=_FIRST_WAIT, longest=_LONGEST_WAIT)
        self.committer.publish()
        return len(messages)

    def _delete(self, done: Sequence[Received]) -> None:
        """A message that is not deleted comes again, and is found to be done."""
        try:
            left = self.queue.delete(done)
        except SingerlakeError as error:
            logger.warning("%d messages that are done come again, since the queue fails: %s", len(done), error)
            return
        if left:
            logger.warning("messages %s are done and come again", ", ".join(each.id for each in left))

    def _rest(self) -> None:
        """Wait before the next try, longer each time, and no longer than until the end."""
        self.ended.wait(self._backoff.next())

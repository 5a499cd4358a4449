"""A process's way to a queue: whether it is worth being used, which all of its writers learn from one of them."""

from __future__ import annotations

import logging

from singerlake.clock import Clock
from singerlake.errors import SingerlakeError
from singerlake.stores.queued.port import Queue
from singerlake.stores.queued.settings import PATIENCE, URL, QueueSettings

logger = logging.getLogger(__name__)

_SILENT_FOR = 10.0
"""How many patiences a queue is left alone from which nobody took a message in time."""


class Sender:
    """For writers of any thread."""

    def __init__(self, queue: Queue, settings: QueueSettings, clock: Clock) -> None:
        self.settings = settings
        self.clock = clock
        self._queue = queue
        self._direct_until: float | None = None

    @property
    def name(self) -> str:
        """What the log calls the queue."""
        return self._queue.name

    @property
    def is_trusted(self) -> bool:
        """Whether to send anything now."""
        return self._direct_until is None or self.clock.monotonic() >= self._direct_until

    def send(self, body: str, *, group: str, deduplication: str) -> bool:
        """Send a message; False where that failed, so that its writer had better not wait for it."""
        try:
            self._queue.send(body, group=group, deduplication=deduplication)
        except SingerlakeError as error:
            self._leave_alone(
                self.settings.patience_seconds,
                "the queue took no message (%s); committing without it for %.0f s: %s",
                self.name,
                self.settings.patience_seconds,
                error,
            )
            return False
        return True

    def silent(self, id: str) -> None:
        """A message was not committed in time."""
        seconds = self.settings.patience_seconds * _SILENT_FOR
        self._leave_alone(
            seconds,
            "transaction %s was not committed within %s=%d; committing without the queue for %.0f s: does "
            "'singerlake commit-worker' run for %s=%s?",
            id,
            PATIENCE,
            self.settings.patience_seconds,
            seconds,
            URL,
            self.name,
        )

    def _leave_alone(self, seconds: float, message: str, *arguments: object) -> None:
        if self.is_trusted:
            self._direct_until = self.clock.monotonic() + seconds
            logger.warning(message, *arguments)

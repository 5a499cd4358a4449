"""What a process has proved of one storage, and for how long it believes that."""

from __future__ import annotations

import threading

from singerlake.clock import Clock, IdSource
from singerlake.storage.port import Capabilities, Storage
from singerlake.storage.probe import probe, prove

_DOUBTED_AFTER = 60.0
"""Seconds for which it is believed that a storage ignores conditions, before that is proved again."""
_PROVED_AGAIN_AFTER = 3600.0
"""Seconds for which it is believed that a storage honours them."""


class Proved:
    """The capabilities of one storage, safe to share between threads: one of them proves, the others wait.
    ``capabilities`` were proved ``at`` that time of the monotonic clock; None: nothing is yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.capabilities: Capabilities | None = None
        self.at = 0.0

    def of(
        self,
        storage: Storage,
        *,
        clock: Clock,
        ids: IdSource,
        max_wait: float,
        setting: str = "s3_probe_max_wait_seconds",
    ) -> Capabilities:
        """What ``storage`` honours. Raises as ``prove``."""
        with self._lock:
            known, now = self.capabilities, clock.monotonic()
            if known is None or not known.conditional_put:
                if known is None or now - self.at >= _DOUBTED_AFTER:
                    known = prove(storage, clock=clock, ids=ids, max_wait=max_wait, setting=setting)
                    self.at = now
            elif now - self.at >= _PROVED_AGAIN_AFTER:
                # Of a storage that honoured its conditions once, only proof says that it has ceased to.
                known = probe(storage, clock=clock, ids=ids) or known
                self.at = now
            self.capabilities = known
            return known

    def refused(self) -> None:
        """A storage that refuses does look at conditions: that it ignores them is to be proved again."""
        known = self.capabilities
        if known is not None and known.takes_conditions and not known.conditional_put:
            self.at = float("-inf")

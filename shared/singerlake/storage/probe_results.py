"""What a process has proved of one storage, and for how long it believes that."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass

from singerlake.clock import Clock, IdSource
from singerlake.errors import ConditionsUnprovenError, SingerlakeError, StorageUnavailableError
from singerlake.storage.port import Capabilities, Storage
from singerlake.storage.probe import probe, prove

_DOUBTED_AFTER = 60.0
"""Seconds for which it is believed that a storage ignores conditions, before that is proved again."""
_PROVED_AGAIN_AFTER = 3600.0
"""Seconds for which it is believed that a storage honours them."""


@dataclass(frozen=True, slots=True)
class _Failed:
    """What a proof came to that failed, without the frames that an error holds."""

    asker: tuple[str, float]
    kind: type[SingerlakeError]
    message: str
    hint: str
    context: Mapping[str, object]

    def again(self) -> SingerlakeError:
        """Its error, for one more thread."""
        return self.kind(self.message, hint=self.hint, **self.context)


class Proved:
    """The capabilities of one storage, safe to share between threads: one of them proves, the others wait and get what
    came of it, also that the storage proved nothing or did not answer. ``capabilities`` were proved ``at`` that time of
    the monotonic clock; None: nothing is yet. ``server`` is what answers for the storage, as ``probe`` takes it."""

    def __init__(self, server: str = "") -> None:
        self._server = server
        self._lock = threading.Lock()
        self.capabilities: Capabilities | None = None
        self.at = 0.0
        self._failed: _Failed | None = None

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
        before = self._failed
        with self._lock:
            failed = self._failed
            if failed is not None and failed is not before and failed.asker == (storage.url, max_wait):
                # Another thread has just asked the same for as long as this one would.
                raise failed.again()
            known, now = self.capabilities, clock.monotonic()
            if known is None or not known.conditional_put:
                if known is None or now - self.at >= _DOUBTED_AFTER:
                    try:
                        known = prove(
                            storage, clock=clock, ids=ids, max_wait=max_wait, setting=setting, server=self._server
                        )
                    except (ConditionsUnprovenError, StorageUnavailableError) as error:
                        self._failed = _Failed(
                            (storage.url, max_wait), type(error), error.message, error.hint, error.context
                        )
                        raise
                    self.at = now
            elif now - self.at >= _PROVED_AGAIN_AFTER:
                # Of a storage that honoured its conditions once, only proof says that it has ceased to.
                known = probe(storage, clock=clock, ids=ids, server=self._server) or known
                self.at = now
            self.capabilities = known
            return known

    def refused(self) -> None:
        """A storage that refuses does look at conditions: that it ignores them is to be proved again."""
        known = self.capabilities
        if known is not None and known.takes_conditions and not known.conditional_put:
            self.at = float("-inf")

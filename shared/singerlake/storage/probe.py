"""Finding out which conditions a storage honours, by asking it.

A storage that ignores conditions answers success to them. A balancer that sends a request again may answer 412 to a
write that took effect. So only a success that its condition excludes shows that conditions are ignored; a refusal of
the probe's own write, or a lost reply, shows nothing, and the probe asks again.
"""

from __future__ import annotations

import hashlib
import logging
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import partial
from itertools import groupby
from typing import NamedTuple, Protocol, TypeVar

from singerlake.clock import Clock, IdSource
from singerlake.errors import (
    AccessDeniedError,
    ConditionNotSupportedError,
    ConditionsUnprovenError,
    SingerlakeError,
    StorageUnavailableError,
    UnknownOutcomeError,
)
from singerlake.storage.lost_replies import answered
from singerlake.storage.patience import backoff
from singerlake.storage.port import Capabilities, Entry, Refused, Storage, Stored, Written

logger = logging.getLogger(__name__)

PROBE_PREFIX = "_singerlake_probe/"
RACERS = 8
"""Requests sent at once to one key: enough for a storage that checks first and writes later to show two winners."""
_OBJECTS = ("created", "replaced", "absent", "deleted")
_NOTE = "one-winner-"
"""How the name begins of the object that notes a race of creates with one winner. The server's digest follows."""
_NOTE_HOLDS = timedelta(days=1)
"""For how long a race of creates is believed that another process saw."""
_ABANDONED = timedelta(hours=1)
_MOST_REMOVED = 100
"""Abandoned objects that a probe removes: a writer waits for it."""
_LONGEST_ROUND = 600.0
"""Seconds; what a slower round saw may be another probe's work, which removes objects that are an hour old."""
_TRIES = 5
"""Of a write that is to be refused and whose reply was lost."""

Answer = TypeVar("Answer")

_DOUBTED_AFTER = 60.0
"""Seconds for which it is believed that a storage ignores conditions, before that is proved again."""
_PROVED_AGAIN_AFTER = 3600.0
"""Seconds for which it is believed that a storage honours them."""


class Together(Protocol):
    """Does several things at once, and gives what came of each, in their order. Raises what one of them raised."""

    def __call__(self, works: Sequence[Callable[[], Answer]], /) -> list[Answer]: ...


class _Verdict(Enum):
    HONOURED = "every condition was honoured"
    IGNORED = "a write succeeded although its condition did not hold"
    NOTHING = "answers were lost, or the probe's own writes were refused"


def at_once(works: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """``Together`` in threads, all of which begin at the same moment."""
    barrier = threading.Barrier(len(works))

    def run(work: Callable[[], Answer]) -> Answer:
        barrier.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def in_turn(works: Sequence[Callable[[], Answer]]) -> list[Answer]:
    """``Together`` one after the other, for a simulation."""
    return [work() for work in works]


def prove(
    storage: Storage,
    *,
    clock: Clock,
    ids: IdSource,
    max_wait: float,
    setting: str = "s3_probe_max_wait_seconds",
    server: str = "",
    together: Together = at_once,
    racers: int = RACERS,
) -> Capabilities:
    """What the storage honours. Asks again for up to ``max_wait`` seconds, by ``setting``. ``server`` as in ``probe``.
    Raises ``ConditionsUnprovenError``, ``StorageUnavailableError`` where no write was answered, and as storage."""
    began, tries, waits = clock.monotonic(), 0, backoff(clock)
    while True:
        answers = _Answers()
        seen = probe(storage, clock=clock, ids=ids, server=server, together=together, racers=racers, answers=answers)
        if seen is not None:
            return seen
        waited, tries = clock.monotonic() - began, tries + 1
        if waited >= max_wait:
            raise _unproven(storage, answers, setting, max_wait)
        if tries == 1:
            logger.warning(
                "%s does not show whether it honours conditional writes; asking again for up to %.0f s",
                storage.url,
                max_wait - waited,
            )
        waits.wait()


def probe(
    storage: Storage,
    *,
    clock: Clock,
    ids: IdSource,
    server: str = "",
    together: Together = at_once,
    racers: int = RACERS,
    answers: _Answers | None = None,
) -> Capabilities | None:
    """One round of questions, with a few small objects under ``_singerlake_probe/``; None where the answers prove
    nothing. ``server`` names what answers, among all that may serve the same objects. ``answers`` notes what storage
    answered.

    The objects are removed where the credentials may delete. Else a later probe takes them over, so that probes do not
    pile up. No object can be created in a race then, so the earlier one must have noted that its race had one winner,
    at the same server and at most a day ago. Two probes might take over the same objects, so only good news counts.
    """
    answers = answers or _Answers()
    began, nonce = clock.monotonic(), ids().encode()
    name = _NOTE + hashlib.sha256(server.encode()).hexdigest()[:16]
    left = _left_behind(storage, name, nonce)
    if left.note is not None:
        taken = _Round(storage, left.note.key.rpartition("/")[0], name, nonce, together, racers, answers)
        seen = taken.capabilities(note=left.note, abandoned=left.abandoned)
        if seen is not None and seen.conditional_put:
            return seen
        nonce = ids().encode()
    fresh = _Round(storage, f"{PROBE_PREFIX}{ids()}", name, nonce, together, racers, answers)
    seen = fresh.capabilities(abandoned=left.abandoned)
    return seen if clock.monotonic() - began <= _LONGEST_ROUND else None


def storage_time(storage: Storage, *, ids: IdSource) -> datetime:
    """What time it is on the storage's clock, by an object that is written to find out and removed again."""
    key = f"{PROBE_PREFIX}{ids()}"
    storage.put(key, ids().encode())
    try:
        entry = storage.head(key)
    finally:
        with suppress(AccessDeniedError, UnknownOutcomeError):
            storage.delete(key)
    if entry is None:
        raise StorageUnavailableError("an object that was just written is not there", hint="run again", key=key)
    return entry.last_modified


@dataclass(slots=True)
class _Answers:
    """Whether storage answered any of the probe's writes, and the error of the last one whose outcome is not known."""

    any: bool = False
    lost: UnknownOutcomeError | None = None


def _unproven(
    storage: Storage, answers: _Answers, setting: str, max_wait: float
) -> ConditionsUnprovenError | StorageUnavailableError:
    """The error of a probe that has asked for long enough, with what storage said last."""
    lost: Mapping[str, object] = answers.lost.context if answers.lost is not None else {}
    said = {name: lost[name] for name in ("code", "error", "reason", "waited_seconds") if name in lost}
    context: dict[str, object] = {"lake_root": storage.url, setting: max_wait, **said}
    if answers.lost is not None and not answers.any:
        return StorageUnavailableError(
            "storage answers reads, but fails every write",
            hint="look at code and reason, and run again when it takes writes; nothing was written",
            **context,
        )
    return ConditionsUnprovenError(
        "the answers of storage do not show whether it honours conditional writes",
        hint=f"run again when it answers reliably, or raise {setting}; nothing was written",
        **context,
    )


class _Left(NamedTuple):
    """What earlier probes left: a note beside objects that may be taken over, and the keys of what nobody needs."""

    note: Entry | None
    abandoned: Sequence[str]


def _left_behind(storage: Storage, name: str, nonce: bytes) -> _Left:
    """``name`` is that of notes that count. Of several ``nonce`` chooses, so that probes rarely choose the same."""
    entries = [entry for entry in storage.list(PROBE_PREFIX) if "/" in entry.key[len(PROBE_PREFIX) :]]
    newest = max((entry.last_modified for entry in entries), default=None)
    notes: list[Entry] = []
    abandoned: list[str] = []
    for _, group in groupby(entries, lambda entry: entry.key.rpartition("/")[0]):
        together = list(group)
        assert newest is not None
        notes += [
            each for each in together if each.key.endswith(f"/{name}") and newest - each.last_modified <= _NOTE_HOLDS
        ]
        if newest - max(each.last_modified for each in together) > _ABANDONED:
            abandoned += [each.key for each in together]
    return _Left(notes[zlib.crc32(nonce) % len(notes)] if notes else None, abandoned[:_MOST_REMOVED])


@dataclass(frozen=True, slots=True)
class _Round:
    """All questions once. Each has objects of its own below ``base``, so that they can be asked at once: a writer waits
    for the answers. ``nonce`` makes all bodies, and so all ETags, new; ``name`` is that of a note."""

    storage: Storage
    base: str
    name: str
    nonce: bytes
    together: Together
    racers: int
    answers: _Answers

    def capabilities(self, *, abandoned: Sequence[str], note: Entry | None = None) -> Capabilities | None:
        """None where nothing is proved. ``abandoned`` is removed, too. Without ``note``, ``base`` is empty yet."""
        keys = [f"{self.base}/{name}" for name in _OBJECTS]
        create = None
        try:
            seen, create = self._ask(keys, note)
        except ConditionNotSupportedError:
            seen = Capabilities(conditional_put=False, conditional_delete=False, takes_conditions=False)
        except UnknownOutcomeError:
            seen = None
        finally:
            may_delete = self._remove([*keys, *([note.key] if note is not None else ()), *abandoned])
        if note is None and not may_delete and create is _Verdict.HONOURED:
            with suppress(AccessDeniedError, UnknownOutcomeError):
                self.storage.put(f"{self.base}/{self.name}", self.nonce)
        return seen

    def _ask(self, keys: Sequence[str], note: Entry | None) -> tuple[Capabilities | None, _Verdict]:
        """What the storage honours, and what it does to creates."""
        created, replaced, absent, deleted = keys
        create, replace, delete = self.together(
            [
                lambda: self._create(created) if note is None else self._create_again(created),
                lambda: self._replace(replaced, absent),
                lambda: self._delete(deleted),
            ]
        )
        if note is not None and create is _Verdict.HONOURED:
            now = self.storage.head(replaced)
            if now is None or now.last_modified - note.last_modified > _NOTE_HOLDS:
                create = _Verdict.NOTHING
        ignored = _Verdict.IGNORED in (create, replace)
        if not ignored and _Verdict.NOTHING in (create, replace):
            return None, create
        return Capabilities(conditional_put=not ignored, conditional_delete=delete is _Verdict.HONOURED), create

    def _create(self, key: str) -> _Verdict:
        told, _ = self._race(lambda body: self._put(key, body, if_absent=True))
        judged = _judge_race(told, self.storage.get(key))
        return self._create_again(key) if judged is _Verdict.HONOURED else judged

    def _create_again(self, key: str) -> _Verdict:
        return self._refused(lambda: self._put(key, self.nonce + b" again", if_absent=True))

    def _replace(self, key: str, absent: str) -> _Verdict:
        put, nonce = self._put, self.nonce
        # On condition, too: one without that is sent again later would make an old ETag valid again.
        made = put(key, nonce + b" first", if_absent=True)
        first = made if isinstance(made, Written) else self.storage.get(key)
        if first is None or isinstance(put(key, nonce + b" next", if_match=first.etag), Refused):
            return _Verdict.NOTHING
        old = first.etag
        # No other write is under way then: a storage may refuse one for that, and not for its ETag.
        second, late = self.together(
            [
                lambda: self.storage.get(key),
                lambda: self._refused(lambda: put(key, nonce + b" late", if_match=old)),
            ]
        )
        if late is _Verdict.IGNORED:
            return _Verdict.IGNORED
        if late is _Verdict.NOTHING or not isinstance(second, Stored) or second.etag == old:
            return _Verdict.NOTHING
        told, (elsewhere,) = self._race(
            lambda body: put(key, body, if_match=second.etag),
            lambda: self._refused(lambda: put(absent, nonce + b" absent", if_match=old)),
        )
        raced = _judge_race(told, self.storage.get(key))
        return raced if elsewhere is _Verdict.HONOURED or raced is _Verdict.IGNORED else elsewhere

    def _delete(self, key: str) -> _Verdict:
        """Whether a DELETE under the ETag of an earlier body leaves the object alone."""
        try:
            old = self._put(key, self.nonce + b" before the last")
            self._put(key, self.nonce + b" last")
            if isinstance(old, Refused):
                return _Verdict.NOTHING
            etag = old.etag
            return self._refused(lambda: self.storage.delete(key, if_match=etag))
        except (AccessDeniedError, ConditionNotSupportedError, UnknownOutcomeError):
            return _Verdict.NOTHING

    def _put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        try:
            outcome, direct = answered(lambda: self.storage.put(key, body, if_absent=if_absent, if_match=if_match))
        except UnknownOutcomeError as error:
            self.answers.lost = error
            raise
        if direct or isinstance(outcome, Written):
            self.answers.any = True
        return outcome

    def _refused(self, write: Callable[[], Written | Refused | bool]) -> _Verdict:
        """What a write shows whose condition does not hold. It is sent again where its reply was lost."""
        for _ in range(_TRIES):
            outcome, direct = answered(write)
            if outcome is True or isinstance(outcome, Written):
                return _Verdict.IGNORED
            if direct:
                return _Verdict.HONOURED
        return _Verdict.NOTHING

    def _race(
        self, attempt: Callable[[bytes], Written | Refused], *beside: Callable[[], _Verdict]
    ) -> tuple[list[bytes], list[_Verdict]]:
        """Send several bodies at once; those answered with success, and the verdict of what is done ``beside``."""

        def told(body: bytes) -> Written | Refused | None:
            try:
                return attempt(body)
            except UnknownOutcomeError:
                return None

        bodies = [self.nonce + b" racer %d" % number for number in range(self.racers)]
        works: list[Callable[[], Written | Refused | _Verdict | None]] = [
            *beside,
            *(partial(told, body) for body in bodies),
        ]
        outcomes = self.together(works)
        raced = zip(bodies, outcomes[len(beside) :], strict=True)
        verdicts = [each for each in outcomes[: len(beside)] if isinstance(each, _Verdict)]
        return [body for body, outcome in raced if isinstance(outcome, Written)], verdicts

    def _remove(self, keys: Sequence[str]) -> bool:
        """Remove objects; whether the credentials may."""
        try:
            self.storage.delete_all(keys)
        except AccessDeniedError:
            return False
        except UnknownOutcomeError:
            pass
        return True


def _judge_race(told: Sequence[bytes], stored: Stored | None) -> _Verdict:
    """Of writes that exclude each other, ``told`` were answered with success, and ``stored`` was there afterwards."""
    if len(told) > 1 or (told and stored is not None and stored.body != told[0]):
        return _Verdict.IGNORED
    return _Verdict.HONOURED if told and stored is not None else _Verdict.NOTHING


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

"""Sending a request until its outcome is known, or saying that it is not.

A reply that was lost leaves two possibilities, and the first try makes storage refuse a second conditional write. So
requests are sent singly, an unclear one is looked up, and a refusal counts only where no try before can cause it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any, Generic, TypeVar

from singerlake.errors import SingerlakeError, UnknownOutcomeError
from singerlake.storage.patience import GivenUp, Patience, RetryReason

Result = TypeVar("Result")

_GIVEN_UP = "singerlake_given_up"
_looked_up: ContextVar[bool] = ContextVar("singerlake_looked_up", default=False)


class Meaning(Enum):
    """What a failed request tells about its effect."""

    REFUSED = "the condition did not hold"
    CONFLICT = "another request was under way; nothing happened, try again"
    BUSY = "nothing happened, try again later"
    UNKNOWN = "it may or may not have happened"
    FATAL = "nothing happened, and trying again does not help"

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later: what failed is the storage or the way to it, not the request."""
        return self in (Meaning.BUSY, Meaning.CONFLICT, Meaning.UNKNOWN)


@dataclass(frozen=True)
class DriverErrors:
    """What the errors of one driver say. ``meaning`` raises an error again that is not the driver's. ``reason`` is what
    a request that is sent again waits for, and ``retry_after`` the seconds that the server asks to wait."""

    meaning: Callable[[Exception], Meaning]
    reason: Callable[[Exception], RetryReason]
    retry_after: Callable[[Exception], float] = lambda _: 0.0


@dataclass(frozen=True)
class Write(Generic[Result]):
    """One write: ``send`` makes one request. ``look`` reads back and gives the result where the effect is seen,
    ``refused`` where it can no longer happen, None where it still may. Not ``changes``: it only reads."""

    send: Callable[[], Result]
    look: Callable[[], Result | None]
    refused: Result
    conditional: bool
    changes: bool = True


def send_until_known(
    write: Write[Result],
    *,
    patience: Patience,
    errors: DriverErrors,
    translate: Callable[[Exception], SingerlakeError],
    key: str,
) -> Result:
    """The result of a write. Raises as ``translate``, and ``UnknownOutcomeError`` once something may have changed."""
    wait = patience.begin(writes=write.changes)
    unclear = False
    while True:
        try:
            result = write.send()
        except Exception as error:
            last = error
            means = errors.meaning(error)
            if means is Meaning.FATAL or (means is Meaning.REFUSED and not write.conditional):
                break
            if means is Meaning.REFUSED and not unclear:
                patience.answered(writes=write.changes)
                return write.refused
            unclear = unclear or means is Meaning.UNKNOWN
        else:
            patience.answered(writes=write.changes)
            return result
        if unclear:
            seen = _look(write)
            if seen is not None:
                _looked_up.set(True)
                return seen
        if not wait.again(errors.reason(last), at_least=errors.retry_after(last), said=words(translate(last))):
            setattr(last, _GIVEN_UP, wait.given_up)
            break
    if errors.meaning(last) is Meaning.CONFLICT and (seen := _look(write)) is not None:
        _looked_up.set(True)
        return seen
    if not unclear:
        raise translate(last) from last
    told = translate(last)
    reason = ": ".join(str(each) for each in (told.message, told.context.get("reason")) if each)
    raise UnknownOutcomeError(
        "a write may or may not have happened, and reading it back did not show which",
        hint="delete nothing; read the object once storage answers again",
        **{"key": key, **told.context, "reason": reason},
    ) from last


def answered(work: Callable[[], Result]) -> tuple[Result, bool]:
    """What ``work`` gives, and whether storage itself answered the writes in it. False where a reply was lost and what
    came of the write was looked up: a refusal then says what the object is, and not what storage does."""
    before = _looked_up.get()
    _looked_up.set(False)
    try:
        return work(), not _looked_up.get()
    finally:
        _looked_up.set(before or _looked_up.get())


def given_up(error: Exception) -> GivenUp | None:
    """How the wait for a request ended that failed with this error; None where nothing was waited for."""
    how: GivenUp | None = getattr(error, _GIVEN_UP, None)
    return how


def words(error: SingerlakeError) -> str:
    """What the server said, of an error that a driver's ``translate`` made; empty where it said nothing."""
    return ": ".join(str(error.context[name]) for name in ("code", "reason") if error.context.get(name))


def send_until_answered(
    request: Callable[[], Result],
    *,
    patience: Patience,
    errors: DriverErrors,
    translate: Callable[[Exception], SingerlakeError],
    key: str,
    changes: bool = False,
) -> Result:
    """What a request gets that may be repeated. ``changes`` something, or only reads. Raises as ``translate``."""

    def meaning(error: Exception) -> Meaning:
        means = errors.meaning(error)
        return Meaning.BUSY if means is Meaning.UNKNOWN else means

    write = Write[Any](request, lambda: None, refused=None, conditional=False, changes=changes)
    repeatable = replace(errors, meaning=meaning)
    answer: Result = send_until_known(write, patience=patience, errors=repeatable, translate=translate, key=key)
    return answer


def _look(write: Write[Result]) -> Result | None:
    try:
        return write.look()
    except SingerlakeError:
        return None

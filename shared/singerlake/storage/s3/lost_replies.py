"""Sending a write until its outcome is known, or saying that it is not.

A reply that was lost leaves two possibilities, and a second try of a conditional write is then refused by the first.
So every request is sent singly, what became of an unclear one is looked up before the next, and a refusal counts only
where no earlier try can have caused it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from singerlake.errors import SingerlakeError, UnknownOutcomeError
from singerlake.storage.patience import Patience
from singerlake.storage.s3.errors import Meaning, give_up, meaning, trouble

Result = TypeVar("Result")


@dataclass(frozen=True)
class Write(Generic[Result]):
    """One write: ``send`` makes one request. ``look`` reads back and gives the result where the write's effect is
    seen, ``refused`` where it can no longer happen because its condition has ceased to hold, None where it still may.
    """

    send: Callable[[], Result]
    look: Callable[[], Result | None]
    refused: Result
    conditional: bool


def send_until_known(
    write: Write[Result],
    *,
    patience: Patience,
    translate: Callable[[Exception], SingerlakeError],
    key: str,
    judge: Callable[[Exception], Meaning] = meaning,
) -> Result:
    """The result of a write. Raises what ``translate`` gives while nothing can have changed, and
    ``UnknownOutcomeError`` once something may have. ``judge`` says what an error means, of S3 where nothing else is
    given."""
    wait = patience.begin()
    unclear = False
    while True:
        try:
            result = write.send()
        except Exception as error:
            last = error
            means = judge(error)
            if means is Meaning.FATAL or (means is Meaning.REFUSED and not write.conditional):
                break
            if means is Meaning.REFUSED and not unclear:
                patience.answered()
                return write.refused
            unclear = unclear or means is Meaning.UNKNOWN
        else:
            patience.answered()
            return result
        if unclear:
            seen = _look(write)
            if seen is not None:
                return seen
        if not wait.again(trouble(last, judge)):
            give_up(last, wait.given_up)
            break
    if judge(last) is Meaning.CONFLICT and (seen := _look(write)) is not None:
        return seen
    if not unclear:
        raise translate(last) from last
    raise UnknownOutcomeError(
        "a write may or may not have happened, and reading it back did not show which",
        hint="delete nothing; read the object once storage answers again",
        key=key,
        reason=str(translate(last)),
    ) from last


def _look(write: Write[Result]) -> Result | None:
    try:
        return write.look()
    except SingerlakeError:
        return None

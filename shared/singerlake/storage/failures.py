"""What the drivers of all clouds say of an error of their library, and how they find out what it came from.

The error's own class and words say less than the operating system's below it. Libraries keep the error that they wrap
in different places: as its cause, among its arguments, as an attribute. So all of these are looked at.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator

from singerlake.errors import SettingError, SingerlakeError, StorageUnavailableError
from singerlake.storage.lost_replies import given_up
from singerlake.storage.patience import DOWN, RetryReason

_ATTRIBUTES = ("reason", "inner_exception")
"""Of urllib3 and azure-core."""


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error and all that it came from, as far as that is kept."""
    left: list[object] = [error]
    seen: set[int] = set()
    while left:
        each = left.pop()
        if not isinstance(each, BaseException) or id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        # botocore keeps what its messages are made of.
        made_of = getattr(each, "kwargs", None)
        left += [each.__context__, each.__cause__, *(getattr(each, name, None) for name in _ATTRIBUTES)]
        left += [*each.args, *(made_of.values() if isinstance(made_of, dict) else ())]


def system_says(error: BaseException) -> str | None:
    """What the operating system says; None where it says nothing."""
    said = [each.strerror.lower() for each in causes(error) if isinstance(each, OSError) and each.strerror]
    return said[-1] if said else None


def is_unknown_host(error: BaseException) -> bool:
    """Whether a host name is known to nobody, rather than to nobody who answers now."""
    errors = [each.errno for each in causes(error) if isinstance(each, socket.gaierror)]
    return bool(errors) and socket.EAI_AGAIN not in errors


def is_untrusted(error: BaseException) -> bool:
    """Whether TLS failed, as ``error`` of it says, before anything was sent: no trusted certificate, or no TLS."""
    text = str(error).upper()
    return "CERTIFICATE" in text or "WRONG_VERSION_NUMBER" in text


def masked(text: str, secrets: Iterable[str]) -> str:
    """What a server or a library says, without the secrets that it repeats."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def reason(error: BaseException) -> dict[str, object]:
    """What the operating system says, as context of this package's error."""
    why = system_says(error)
    return {"reason": why} if why else {}


def waited(error: Exception) -> dict[str, object]:
    """How long a request was waited for that failed with this error, as context of this package's."""
    how = given_up(error)
    return {"waited_seconds": round(how.seconds, 1)} if how is not None else {}


def without_answer(
    error: Exception, what: str, /, *, wrong_host: str, wrong_port: str, **context: object
) -> SingerlakeError:
    """This package's error for one that says that no answer came. ``what`` did not answer; the others are next steps
    where it never did. ``context`` may name the error and its reason where it says neither itself."""
    how = given_up(error)
    context = {**context, **({} if "error" in context else {"error": type(error).__name__, **reason(error)})}
    context |= waited(error)
    if how is None:
        return StorageUnavailableError(f"{what} cannot be reached", hint=wrong_port, **context)
    if how.answered:
        return StorageUnavailableError(f"{what} answered before and no longer does", hint=DOWN, **context)
    if how.trouble is RetryReason.NO_SUCH_HOST:
        return SettingError(f"the host name of {what} is not known", hint=wrong_host, **context)
    return StorageUnavailableError(f"{what} never answered since this process began", hint=wrong_port, **context)

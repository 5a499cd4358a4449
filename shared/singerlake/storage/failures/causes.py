"""What an error of a library came from: its own class and words say less than the operating system's below it.

Libraries keep the error that they wrap in different places: as its cause, among its arguments, as an attribute. So all
of these are looked at.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

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
    """Whether TLS failed before anything was sent: a certificate that is not trusted, or no TLS at all. ``error`` is
    one of TLS."""
    text = str(error).upper()
    return "CERTIFICATE" in text or "WRONG_VERSION_NUMBER" in text

"""What lies below an error of a library, wherever the library keeps it."""

from __future__ import annotations

import errno
import socket
import ssl

import pytest

from singerlake.storage.failures import causes, is_unknown_host, is_untrusted, system_says

REFUSED = OSError(errno.ECONNREFUSED, "Connection refused")


def wrapped(how: str, inner: BaseException) -> BaseException:
    """A new error that holds another one in this way."""
    outer = ValueError("outer")
    if how == "argument":
        return ValueError("outer", inner)
    if how == "message":
        vars(outer)["kwargs"] = {"error": inner, "endpoint_url": "http://x"}
    elif how in ("cause", "context"):
        setattr(outer, f"__{how}__", inner)
    else:
        setattr(outer, how, inner)
    return outer


@pytest.mark.parametrize("how", ["cause", "context", "argument", "reason", "inner_exception", "message"])
def test_it_is_found_wherever_it_is_kept(how: str) -> None:
    error = wrapped("argument", wrapped(how, REFUSED))
    assert REFUSED in causes(error)
    assert next(causes(error)) is error
    assert system_says(error) == "connection refused"


def test_what_leads_back_to_itself_has_an_end() -> None:
    one, other = ValueError("one"), KeyError("other")
    one.__cause__, other.__context__ = other, one
    assert list(causes(one)) == [one, other]


@pytest.mark.parametrize("error", [ValueError("x"), OSError(), OSError("Words alone"), wrapped("reason", KeyError())])
def test_where_the_system_says_nothing(error: BaseException) -> None:
    assert system_says(error) is None


@pytest.mark.parametrize(
    ("number", "unknown"), [(socket.EAI_NONAME, True), (socket.EAI_NODATA, True), (socket.EAI_AGAIN, False)]
)
def test_a_name_that_nobody_knows_and_one_that_nobody_answers_for(number: int, unknown: bool) -> None:
    assert is_unknown_host(wrapped("reason", socket.gaierror(number, "no"))) is unknown
    assert not is_unknown_host(wrapped("reason", REFUSED))


@pytest.mark.parametrize(
    ("text", "untrusted"),
    [
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: Hostname mismatch", True),
        ("[SSL: WRONG_VERSION_NUMBER] wrong version number", True),
        ("[SSL: UNEXPECTED_EOF_WHILE_READING] EOF occurred in violation of protocol", False),
        ("[SSL] record layer failure", False),
    ],
)
def test_tls_that_failed_before_anything_was_sent(text: str, untrusted: bool) -> None:
    assert is_untrusted(ssl.SSLError(1, text)) is untrusted

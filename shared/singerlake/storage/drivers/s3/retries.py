"""Waiting in botocore's place, for requests that may be repeated, also if they took effect.

botocore's own retries give up on a connection that is refused after a second, and share a quota that a storm uses up
(https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html); they are off. Its event ``needs-retry``
asks after each answer for the seconds after which the request is sent again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from singerlake.storage.drivers.s3.errors import give_up, may_pass, translate, trouble
from singerlake.storage.drivers.s3.expect_continue import ask
from singerlake.storage.drivers.s3.settings import S3Settings
from singerlake.storage.lost_replies import words
from singerlake.storage.patience import Patience

_CONTEXT = "singerlake_wait"
_READS = ("Get", "Head", "List", "Assume")
"""How the names of operations begin that change nothing on storage."""


def wait_in(
    client: Any, patience: Patience, settings: S3Settings, *, unless: Callable[[], bool] = lambda: False
) -> None:
    """Have a client whose own retries are off send each request until it succeeds or ``patience`` ends. A request for
    which ``unless`` is true is sent once. No secret of ``settings`` gets into the log."""

    def again(
        response: tuple[Any, dict[str, Any]] | None,
        caught_exception: Exception | None,
        operation: Any,
        request_dict: dict[str, Any],
        **_: object,
    ) -> int | None:
        if unless():
            return None
        failure = caught_exception
        writes = not operation.name.startswith(_READS)
        if response is not None and response[0].status_code >= 300:
            failure = client.exceptions.ClientError(response[1], operation.name)
        if failure is None or not may_pass(failure):
            patience.answered(writes=writes)
            return None
        if caught_exception is not None:
            ask(request_dict)
        wait = request_dict["context"].setdefault(_CONTEXT, patience.begin(writes=writes))
        if wait.again(trouble(failure), said=words(translate(failure, settings))):
            return 0
        give_up(failure, wait.given_up)
        return None

    client.meta.events.register_last("needs-retry", again)

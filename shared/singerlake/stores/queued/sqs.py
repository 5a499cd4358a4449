"""The queue in Amazon SQS, or in a server that speaks its protocol.

botocore is imported when the first request is made, not before. A message may be sent twice, for the queue drops a
second one of the same deduplication id, and a committer what is committed: so botocore's own retries are on, and few.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

from singerlake.aws import errors as aws_errors
from singerlake.aws.session import client_of, in_session, region_for
from singerlake.aws.settings import S3Settings
from singerlake.clock import Clock
from singerlake.errors import AccessDeniedError, SettingError, SingerlakeError, StorageUnavailableError
from singerlake.storage.failures import masked, without_answer
from singerlake.storage.patience import Patience
from singerlake.stores.queued.message import Received
from singerlake.stores.queued.settings import URL, QueueSettings

Result = TypeVar("Result")

_REGION = re.compile(r"(?:^|\.)sqs\.([a-z0-9-]+)\.")
LONGEST_WAIT = 5
"""Seconds that a poll may wait for a message: a committer ends within them."""
_CONNECT_SECONDS = 5
_READ_SECONDS = 10
_TRIES = 2
_SHOWN = 300
_DENIED = frozenset(
    {
        "AccessDenied",
        "AccessDeniedException",
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "MissingAuthenticationToken",
        "InvalidSignatureException",
        "SignatureDoesNotMatch",
        "IncompleteSignature",
        "ExpiredToken",
        "ExpiredTokenException",
        "KmsAccessDenied",
    }
)
_NO_QUEUE = frozenset({"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "NonExistentQueue"})
_BUSY = frozenset({"RequestThrottled", "ThrottlingException", "Throttling", "OverLimit", "KmsThrottled"})


class SqsQueue:
    """A FIFO queue, for many threads, by credentials and region of ``s3``. Nothing is sent before the first call."""

    def __init__(self, settings: QueueSettings, s3: S3Settings | None = None, *, clock: Clock) -> None:
        self._url = settings.url
        self._settings = s3 or S3Settings()
        self._lock = threading.Lock()
        self._connected: Any = None
        self._patience = Patience(self._settings.patience_seconds, clock, place="Amazon SQS", what="SQS")

    @property
    def name(self) -> str:
        """The URL: it was refused if it held credentials."""
        return self._url

    def send(self, body: str, *, group: str, deduplication: str) -> None:
        self._ask(
            lambda client: client.send_message(
                QueueUrl=self._url, MessageBody=body, MessageGroupId=group, MessageDeduplicationId=deduplication
            )
        )

    def receive(self, most: int, *, wait: int) -> Sequence[Received]:
        reply = self._ask(
            lambda client: client.receive_message(QueueUrl=self._url, MaxNumberOfMessages=most, WaitTimeSeconds=wait)
        )
        return [
            Received(each["MessageId"], each.get("Body", ""), each["ReceiptHandle"])
            for each in reply.get("Messages", ())
        ]

    def delete(self, messages: Sequence[Received]) -> Sequence[Received]:
        entries = [{"Id": str(at), "ReceiptHandle": each.receipt} for at, each in enumerate(messages)]
        reply = self._ask(lambda client: client.delete_message_batch(QueueUrl=self._url, Entries=entries))
        return [messages[int(each["Id"])] for each in reply.get("Failed", ())]

    def hidden_seconds(self) -> int:
        """For how long a message is given to nobody else. Raises ``SettingError`` where there is no such queue."""
        reply = self._ask(
            lambda client: client.get_queue_attributes(QueueUrl=self._url, AttributeNames=["VisibilityTimeout"])
        )
        return int(reply.get("Attributes", {}).get("VisibilityTimeout", 0))

    def _ask(self, request: Callable[[Any], Result]) -> Result:
        try:
            return request(self._client)
        except Exception as error:
            raise self._translate(error) from error

    def _translate(self, error: Exception) -> SingerlakeError:
        from botocore import exceptions as boto
        from botocore.parsers import ResponseParserError

        if isinstance(error, SingerlakeError):
            return error
        where = {"queue": self._url}
        if isinstance(error, ResponseParserError):
            return SettingError("the server that answers is not SQS", hint=f"check {URL}", **where)
        if aws_errors.has_no_answer(error):
            hint = f"check host and port of {URL}, and the network"
            return without_answer(error, "SQS", wrong_host=hint, wrong_port=hint, **where)
        if not isinstance(error, boto.ClientError):
            return aws_errors.translate(error, self._settings, **where)
        code, status = aws_errors.code_of(error).rpartition("#")[2], aws_errors.status_of(error)
        context: dict[str, object] = {**where, "code": code or f"HTTP {status}"}
        if code in _NO_QUEUE:
            return SettingError("the queue does not exist", hint=f"check {URL} and aws_region, or make it", **context)
        if code in _DENIED:
            return AccessDeniedError(
                "SQS denied access",
                hint="check the aws_ settings; writers need sqs:SendMessage, committers sqs:ReceiveMessage, "
                "sqs:DeleteMessage and sqs:GetQueueAttributes",
                **context,
            )
        if code in _BUSY or status >= 500 or status == 429:
            said = {"reason": reason} if (reason := self._said(error)) else {}
            return StorageUnavailableError("SQS could not answer", hint="run again later", **context, **said)
        return SettingError(
            "SQS refused a request", hint="look at code and reason", reason=self._said(error), **context
        )

    def _said(self, error: Any) -> str:
        return masked(str(aws_errors.details(error).get("Message") or ""), self._settings.secrets())[:_SHOWN]

    @property
    def _client(self) -> Any:
        with self._lock:
            if self._connected is None:
                self._connected = in_session(self._settings, self._connect, self._patience)
            return self._connected

    def _connect(self, session: Any) -> Any:
        parts = urlsplit(self._url)
        endpoint = f"{parts.scheme}://{parts.netloc}"
        named = _REGION.search(parts.netloc)
        region = named.group(1) if named else region_for(self._settings, session, endpoint)
        return client_of(
            session,
            "sqs",
            region=region,
            endpoint_url=endpoint,
            # A poll is answered after the time that it asks to wait.
            read_timeout=_READ_SECONDS + LONGEST_WAIT,
            connect_timeout=_CONNECT_SECONDS,
            retries={"total_max_attempts": _TRIES, "mode": "standard"},
        )

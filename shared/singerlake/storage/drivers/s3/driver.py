"""Single requests to a bucket of S3, or of a store that speaks its protocol: botocore for requests, smart_open for
streamed reads, both imported when first needed. Metadata is always one PUT, never multipart, because some stores ignore
conditions on multipart uploads. No object gets a Content-Encoding: clients would then unpack the gzip that is the file
format."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

from singerlake.aws.settings import S3Settings, endpoint_of
from singerlake.clock import Clock
from singerlake.errors import NoSuchBucketError, SingerlakeError, StorageUnavailableError
from singerlake.storage.cloud.compose import Sources
from singerlake.storage.cloud.driver import Ask, Driver, Fetched, Page, unless_absent
from singerlake.storage.drivers.s3.client import connect
from singerlake.storage.drivers.s3.errors import S3_ERRORS, is_absent, is_past_end, meaning, not_s3, translate
from singerlake.storage.drivers.s3.upload import Target, compose_object, upload
from singerlake.storage.keys import root_prefix
from singerlake.storage.lost_replies import Meaning
from singerlake.storage.patience import Patience
from singerlake.storage.port import Entry, Part

Result = TypeVar("Result")

_QUOTED = '"{}"'

_BUFFER = 1 << 20

AskBytes = Callable[[Callable[[], bytes]], bytes]
"""Sends a request until it is answered. Raises this package's errors."""


class _Learned:
    """What this process has learned of one bucket at one endpoint. ``etag_form`` is that of conditions."""

    def __init__(self) -> None:
        self.etag_form: str | None = None
        self.exists = False


_learned: dict[tuple[str, str], _Learned] = {}


class S3Driver(Driver):
    """A ``Driver`` below a prefix of a bucket. ``patience`` is also that with what assumes a role.

    ETags are kept without quotes; a condition sends them quoted, as HTTP wants it, unless the store turns out to honour
    only the bare form, as Ceph 16 does. Raises ``SettingError`` where ``prefix`` is not a plain path.
    """

    errors = S3_ERRORS
    lists_in_order = True
    most_deleted = 1000
    """https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteObjects.html"""

    def __init__(self, bucket: str, prefix: str, settings: S3Settings, clock: Clock) -> None:
        self._bucket = bucket
        self._prefix = root_prefix(prefix)
        self._settings = settings
        self._endpoint = endpoint_of(settings) or ""
        self.patience = Patience(settings.patience_seconds, clock, place=self._endpoint or "Amazon S3")
        self._learned = _learned.setdefault(self.identity, _Learned())
        self._lock = threading.Lock()
        self._connected: Any = None

    @property
    def url(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    @property
    def identity(self) -> tuple[str, str]:
        return self._endpoint, self._bucket

    def translate(self, error: Exception, **context: object) -> SingerlakeError:
        return translate(error, self._settings, **context)

    def get(self, key: str) -> Fetched | None:
        return unless_absent(is_absent, lambda: self._fetched(key))

    def get_range(self, key: str, start: int, length: int) -> Fetched | None:
        try:
            return self._fetched(key, start, length)
        except Exception as error:
            if is_absent(error):
                return None
            if not is_past_end(error):
                raise
        entry = self.head(key)
        return Fetched(b"", entry.size, entry.etag, entry.last_modified) if entry is not None else None

    def head(self, key: str) -> Entry | None:
        try:
            reply = self._client.head_object(**self._object(key))
        except Exception as error:
            if is_absent(error):
                self._check_bucket()
                return None
            raise
        etag = _etag(reply)
        return Entry(key=key, size=reply["ContentLength"], last_modified=reply["LastModified"], etag=etag)

    def put(self, key: str, body: bytes, *, if_absent: bool, if_match: str | None) -> str:
        arguments = {**self._object(key), "Body": body, **self._encryption()}
        if if_absent:
            arguments["IfNoneMatch"] = "*"

        def request(**condition: str) -> str:
            return _etag(self._client.put_object(**arguments, **condition))

        return request() if if_match is None else self._under(if_match, key, request)

    def delete(self, key: str, *, if_match: str | None) -> None:
        # A DELETE teaches nothing of the form of ETags, since stores ignore its condition.
        condition = {} if if_match is None else {"IfMatch": (self._learned.etag_form or _QUOTED).format(if_match)}
        unless_absent(is_absent, lambda: self._client.delete_object(**self._object(key), **condition))

    def delete_many(self, keys: Sequence[str]) -> Sequence[str]:
        full = {self._prefix + key: key for key in keys}
        reply = self._client.delete_objects(
            Bucket=self._bucket, Delete={"Objects": [{"Key": name} for name in full], "Quiet": True}
        )
        return [full[error["Key"]] for error in reply.get("Errors", ()) if error.get("Key") in full]

    def page(self, prefix: str, *, folders: bool, start_after: str, token: str | None) -> Page:
        asked = {"Bucket": self._bucket, "Prefix": self._prefix + prefix}
        asked |= {"Delimiter": "/"} if folders else {}
        asked |= {"StartAfter": self._prefix + start_after} if start_after else {}
        asked |= {"ContinuationToken": token} if token is not None else {}
        reply = self._client.list_objects_v2(**asked)
        follows = reply.get("NextContinuationToken") if reply.get("IsTruncated") else None
        if follows is not None and follows == token:
            raise not_s3()
        cut = len(self._prefix)
        return Page(
            [
                Entry(item["Key"][cut:], item["Size"], item["LastModified"], _bare(item["ETag"]))
                for item in reply.get("Contents", ())
            ],
            [each["Prefix"][cut:] for each in reply.get("CommonPrefixes", ())],
            follows,
        )

    def stream(self, key: str, start: int, ask: Ask) -> BinaryIO:
        def request(work: Callable[[], bytes]) -> bytes:
            return ask(work, key=key)

        return open_stream(self._client, self._bucket, self._prefix + key, start, request)

    def upload(self, key: str, path: Path, size: int, ask: Ask, ready: Callable[[], object]) -> bool:
        return upload(self._target(key, ask), path, size, ready)

    def compose(self, key: str, pieces: Sequence[bytes | Part], ask: Ask) -> None:
        compose_object(self._target(key, ask), pieces, Sources(self, ask), self._object)

    @property
    def _client(self) -> Any:
        with self._lock:
            if self._connected is None:
                self._connected = connect(self._settings, self.patience)
            return self._connected

    def _object(self, key: str) -> dict[str, Any]:
        return {"Bucket": self._bucket, "Key": self._prefix + key}

    def _target(self, key: str, ask: Ask) -> Target:
        """The object that is made at a key that nobody else writes."""

        def sent(request: Callable[[], Result]) -> Result:
            def once() -> Result:
                try:
                    return request()
                except Exception as error:
                    if is_absent(error):
                        raise StorageUnavailableError("storage lost an upload", hint="run again", key=key) from error
                    raise

            return ask(once)

        return Target(self._client, self._object(key), self._encryption(), sent)

    def _under(self, etag: str, key: str, request: Callable[..., Result]) -> Result:
        """Send a request under If-Match in the form the store honours. A quoted ETag that is refused although it is the
        object's shows a store that wants it bare."""
        form = self._learned.etag_form
        if form is not None:
            return request(IfMatch=form.format(etag))
        try:
            result = request(IfMatch=_QUOTED.format(etag))
        except Exception as error:
            if meaning(error) is not Meaning.REFUSED or not self._is_still(key, etag):
                raise
            result = request(IfMatch=etag)
            self._learned.etag_form = "{}"
            return result
        self._learned.etag_form = _QUOTED
        return result

    def _is_still(self, key: str, etag: str) -> bool:
        """Whether the object has this ETag. Raises only what may pass: the write is sent again then."""
        try:
            entry = self.head(key)
        except SingerlakeError:
            return False
        except Exception as error:
            if meaning(error).may_pass:
                raise
            return False
        return entry is not None and entry.etag == etag

    def _fetched(self, key: str, start: int = 0, length: int | None = None) -> Fetched:
        """The bytes of an object from ``start`` on, all or up to ``length``."""
        wanted = {} if length is None else {"Range": f"bytes={start}-{start + length - 1}"}
        reply = self._client.get_object(**self._object(key), **wanted)
        etag, body = _etag(reply), reply["Body"].read()
        size = len(body)
        if "ContentRange" in reply:
            told = reply["ContentRange"].rpartition("/")[2]
            if not told.isdecimal():
                raise not_s3()
            size = int(told)
        elif length is not None:
            # A server may give the whole where a range was asked for.
            body = body[start : start + length]
        return Fetched(body, size, etag, reply["LastModified"])

    def _check_bucket(self) -> None:
        """HEAD has no body, so its 404 does not say whether it is the bucket that is missing."""
        if self._learned.exists:
            return
        try:
            self._client.head_bucket(Bucket=self._bucket)
        except Exception as error:
            if is_absent(error):
                raise NoSuchBucketError(
                    "the bucket does not exist",
                    hint="check lake_root, aws_region and s3_endpoint_url",
                    lake_root=self.url,
                ) from error
            if meaning(error).may_pass:
                raise
        else:
            self._learned.exists = True

    def _encryption(self) -> dict[str, str]:
        if self._settings.kms_key_id is None:
            return {}
        return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": self._settings.kms_key_id}


def _etag(reply: dict[str, Any]) -> str:
    """Of an object. Only what is not S3 gives none: a portal's page, say, that answers 200 to everything."""
    if "ETag" not in reply or "ResponseMetadata" not in reply:
        raise not_s3()
    return _bare(reply["ETag"])


def _bare(etag: str) -> str:
    return etag.strip('"')


class _ResumingStream(io.BufferedIOBase):
    """smart_open's reader, which resumes by itself where a connection breaks. Where it gives up, another one goes on at
    the byte that is wanted next: what the first one holds or has dropped by then does not matter."""

    def __init__(self, opened: Callable[[int], Any], start: int, ask: AskBytes) -> None:
        self._opened = opened
        self._ask = ask
        self._at = start
        self._reader: Any = None
        self._next(lambda _: b"")

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1, /) -> bytes:
        return self._next(lambda reader: reader.read(-1 if size is None else size))

    def read1(self, size: int = -1, /) -> bytes:
        return self.read(_BUFFER if size < 0 else size)

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._next(lambda reader: reader.readline(-1 if size is None else size))

    def close(self) -> None:
        self._drop()
        super().close()

    def _drop(self) -> None:
        reader, self._reader = self._reader, None
        if reader is not None:
            reader.close()

    def _next(self, read: Callable[[Any], bytes]) -> bytes:
        """What ``read`` makes of a reader that stands at the byte that is wanted next."""
        if self.closed:
            raise ValueError("I/O operation on closed file.")

        def request() -> bytes:
            try:
                self._reader = self._reader or self._opened(self._at)
                return read(self._reader)
            except Exception as error:
                self._drop()
                raise _cause(error) from error

        data = self._ask(request)
        self._at += len(data)
        return data


def _cause(error: Exception) -> Exception:
    """botocore's error: smart_open wraps what the store answered, has an error of its own for reads that it gave up on,
    and lets botocore's other errors through."""
    from botocore.exceptions import BotoCoreError, ResponseStreamingError

    answered: Exception | None = getattr(error, "backend_error", None)
    if answered is not None:
        return answered
    # Some of botocore's own are of the operating system's, too.
    gave_up = isinstance(error, OSError) and not isinstance(error, BotoCoreError)
    return ResponseStreamingError(error=error) if gave_up else error


def open_stream(client: Any, bucket: str, key: str, start: int, ask: AskBytes) -> BinaryIO:
    """The object's bytes from ``start`` on. Bucket and key go in as they are: a URL would be taken apart again."""
    from smart_open.s3 import open as smart_open_s3

    def opened(at: int) -> Any:
        reader = smart_open_s3(bucket, key, "rb", buffer_size=_BUFFER, defer_seek=True, client=client)
        reader.seek(at)
        return reader

    return cast(BinaryIO, _ResumingStream(opened, start, ask))

"""Objects in a bucket of S3, or of a store that speaks its protocol.

botocore for requests, smart_open for streamed reads, both imported when first needed. Metadata is always one
PUT, never multipart, because some stores ignore conditions on multipart uploads. No object gets a Content-Encoding:
clients would then unpack the gzip that is the file format.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from singerlake.clock import Clock, IdSource
from singerlake.errors import (
    MissingFileError,
    NoSuchBucketError,
    SettingError,
    SingerlakeError,
    StorageUnavailableError,
)
from singerlake.storage.drivers.s3.client import Clients, connect
from singerlake.storage.drivers.s3.compose import Composer
from singerlake.storage.drivers.s3.errors import (
    S3_ERRORS,
    give_up,
    is_absent,
    is_past_end,
    meaning,
    not_s3,
    translate,
    trouble,
)
from singerlake.storage.drivers.s3.expect_continue import Tries
from singerlake.storage.drivers.s3.read_stream import open_stream
from singerlake.storage.drivers.s3.settings import S3Settings, endpoint_of
from singerlake.storage.drivers.s3.upload import upload
from singerlake.storage.keys import check_conditions, check_key, check_prefix
from singerlake.storage.lost_replies import Meaning, Write, send_until_known
from singerlake.storage.patience import Patience
from singerlake.storage.port import Beginning, Capabilities, Entry, Folder, Part, Refused, Stored, Written
from singerlake.storage.probe_results import Proved
from singerlake.storage.stream_part import window

__all__ = ["S3Settings", "S3Storage"]

Result = TypeVar("Result")

_DELETED_AT_ONCE = 1000


class _Bucket:
    """What this process has learned of one bucket at one endpoint."""

    def __init__(self, endpoint: str) -> None:
        self.proved = Proved(endpoint)
        self.etag_form: str | None = None
        self.exists = False


_known: dict[tuple[str, str], _Bucket] = {}
_known_lock = threading.Lock()


class S3Storage:
    """A ``Storage`` below a prefix of a bucket, safe to share between threads; nothing is sent before the first call.

    ``prefix`` has no slash at either end. ETags are kept without quotes; a condition sends them quoted, as HTTP wants
    it, unless the store turns out to honour only the bare form, as Ceph 16 does.
    """

    def __init__(self, bucket: str, prefix: str, settings: S3Settings, *, clock: Clock, ids: IdSource) -> None:
        if prefix and any(segment in ("", ".", "..") for segment in prefix.split("/")):
            raise SettingError("lake_root has an empty, '.' or '..' part", hint="remove it", lake_root=prefix)
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._settings = settings
        self._clock = clock
        self._ids = ids
        endpoint = endpoint_of(settings)
        self._patience = Patience(settings.patience_seconds, clock, place=endpoint or "Amazon S3")
        self._lock = threading.Lock()
        self._connected: Clients | None = None
        with _known_lock:
            self._known = _known.setdefault((endpoint or "", bucket), _Bucket(endpoint or ""))

    @property
    def url(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    @property
    def near(self) -> bool:
        return False

    def capabilities(self) -> Capabilities:
        return self._known.proved.of(self, clock=self._clock, ids=self._ids, max_wait=self._settings.probe_max_wait)

    def get(self, key: str) -> Stored | None:
        full = self._prefix + check_key(key)
        try:
            reply, body = self._fetch(Key=full)
        except Exception as error:
            if is_absent(error):
                return None
            raise self._translate(key)(error) from error
        etag = _etag(reply)
        return Stored(body=body, etag=etag, last_modified=reply["LastModified"])

    def head(self, key: str) -> Entry | None:
        full = self._prefix + check_key(key)
        try:
            reply = self._clients.patient.head_object(Bucket=self._bucket, Key=full)
        except Exception as error:
            if is_absent(error):
                self._check_bucket()
                return None
            raise self._translate(key)(error) from error
        etag = _etag(reply)
        return Entry(key=key, size=reply["ContentLength"], last_modified=reply["LastModified"], etag=etag)

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        full = self._prefix + check_key(key)
        check_conditions(if_absent, if_match)
        arguments = {"Bucket": self._bucket, "Key": full, "Body": body, **self._encryption()}
        if if_absent:
            arguments["IfNoneMatch"] = "*"
        tries = Tries()

        def request(**condition: str) -> Written:
            with tries.another():
                return Written(_etag(self._clients.single.put_object(**arguments, **condition)))

        def look() -> Written | Refused | None:
            stored = self.get(key)
            if stored is not None and stored.body == body:
                return Written(stored.etag)
            if if_absent:
                return Refused() if stored is not None else None
            if if_match is not None:
                return Refused() if stored is None or stored.etag != if_match else None
            return None

        def send() -> Written | Refused:
            return request() if if_match is None else self._under(if_match, key, request)

        conditional = if_absent or if_match is not None
        write = Write[Written | Refused](send, look, refused=Refused(), conditional=conditional)
        outcome = self._until_known(write, key)
        if isinstance(outcome, Refused):
            self._known.proved.refused()
        return outcome

    def upload(self, key: str, path: Path, ready: Callable[[], object] = lambda: None) -> int:
        """As the port says; a file of 64 MiB or more goes up in parts, and is begun before ``ready`` is called. A
        failure may leave an object that no manifest lists."""
        full = self._prefix + check_key(key)
        size = path.stat().st_size
        is_whole = False

        def send() -> None:
            nonlocal is_whole
            is_whole = upload(self._clients.patient, self._bucket, full, path, size, self._encryption(), ready)

        self._send(key, size, send)
        return size if is_whole else self._checked(key, size).size

    def compose(self, key: str, pieces: Sequence[bytes | Part]) -> Entry:
        """As the port says, in a multipart upload where the server copies. One that a killed process began is for the
        bucket's lifecycle rules to remove."""
        full = self._prefix + check_key(key)
        size = sum(len(piece) if isinstance(piece, bytes) else piece.size for piece in pieces)
        composer = Composer(
            self._clients.patient, self._bucket, self._prefix, self._encryption(), self.read_range, self._translate
        )
        self._send(key, size, lambda: composer.compose(full, pieces))
        return self._checked(key, size)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        full = self._prefix + check_key(key)
        if length <= 0:
            if self.head(key) is None:
                raise MissingFileError("no such object", key=key, lake_root=self.url)
            return b""
        try:
            reply, body = self._fetch(Key=full, Range=f"bytes={start}-{start + length - 1}")
        except Exception as error:
            if is_past_end(error):
                return b""
            raise self._translate(key)(error) from error
        return body if "ContentRange" in reply else body[start : start + length]

    def beginning(self, key: str, length: int) -> Beginning:
        full = self._prefix + check_key(key)
        try:
            reply, body = self._fetch(Key=full, Range=f"bytes=0-{max(length, 1) - 1}")
        except Exception as error:
            if is_past_end(error):
                return Beginning(b"", 0)
            raise self._translate(key)(error) from error
        # A server may give the whole where a range was asked for.
        size = int(reply["ContentRange"].rpartition("/")[2]) if "ContentRange" in reply else len(body)
        return Beginning(body[: max(length, 0)], size)

    def bodies(self, keys: Sequence[str], most: int) -> Sequence[bytes | None]:
        return [None] * len(keys)

    def open(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        full = self._prefix + check_key(key)
        stream = open_stream(
            self._clients.patient, self._bucket, full, start, translate=self._translate(key), patience=self._patience
        )
        return stream if end is None else window(stream, end - start)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[Entry]:
        check_prefix(prefix)
        after = {"StartAfter": self._prefix + start_after} if start_after else {}
        for page in self._pages(prefix, **after):
            for item in page.get("Contents", ()):
                yield self._entry(item)

    def list_folder(self, prefix: str) -> Folder:
        check_prefix(prefix)
        entries: list[Entry] = []
        folders: list[str] = []
        for page in self._pages(prefix, Delimiter="/"):
            entries.extend(self._entry(item) for item in page.get("Contents", ()))
            folders.extend(each["Prefix"][len(self._prefix + prefix) :] for each in page.get("CommonPrefixes", ()))
        return Folder(entries=tuple(entries), folders=tuple(folders))

    def unfinished(self, prefix: str) -> Iterator[tuple[str, BinaryIO]]:
        return iter(())

    def delete(self, key: str, *, if_match: str | None = None) -> bool:
        full = self._prefix + check_key(key)

        def request(**condition: str) -> bool:
            self._clients.single.delete_object(Bucket=self._bucket, Key=full, **condition)
            return True

        def send() -> bool:
            try:
                return request() if if_match is None else self._under(if_match, key, request, learn=False)
            except Exception as error:
                if is_absent(error):
                    return True
                raise

        def look() -> bool | None:
            entry = self.head(key)
            if entry is None:
                return True
            return False if if_match is not None and entry.etag != if_match else None

        write = Write[bool](send, look, refused=False, conditional=if_match is not None)
        gone = self._until_known(write, key)
        # Of a request that was sent twice, the second may be refused since the first removed the object.
        return gone or self.head(key) is None

    def delete_all(self, keys: Sequence[str]) -> None:
        for start in range(0, len(keys), _DELETED_AT_ONCE):
            page = keys[start : start + _DELETED_AT_ONCE]
            # What a request for many did not do, for any reason, is done one by one, with all that this knows of
            # replies that were lost; some stores know no other way.
            for key in self._left_of(page):
                self.delete(key)

    def _left_of(self, keys: Sequence[str]) -> Sequence[str]:
        """The keys that one request did not remove."""
        full = {self._prefix + check_key(key): key for key in keys}
        try:
            reply = self._clients.single.delete_objects(
                Bucket=self._bucket, Delete={"Objects": [{"Key": name} for name in full], "Quiet": True}
            )
        except Exception:
            # Whatever it means, one of the keys alone meets it again, and its error is explained there.
            return keys
        return [full[error["Key"]] for error in reply.get("Errors", ()) if error.get("Key") in full]

    @property
    def _clients(self) -> Clients:
        with self._lock:
            if self._connected is None:
                self._connected = connect(self._settings, self._patience)
            return self._connected

    def _under(self, etag: str, key: str, request: Callable[..., Result], *, learn: bool = True) -> Result:
        """Send a request under If-Match in the form the store honours. A quoted ETag that is refused although it is
        the object's shows a store that wants it bare; a DELETE teaches nothing, since stores ignore its condition."""
        form = self._known.etag_form
        if form is not None or not learn:
            return request(IfMatch=(form or '"{}"').format(etag))
        try:
            result = request(IfMatch=f'"{etag}"')
        except Exception as error:
            if meaning(error) is not Meaning.REFUSED:
                raise
            entry = self._look_for(key)
            if entry is None or entry.etag != etag:
                raise
            result = request(IfMatch=etag)
            self._known.etag_form = "{}"
            return result
        self._known.etag_form = '"{}"'
        return result

    def _until_known(self, write: Write[Result], key: str) -> Result:
        return send_until_known(
            write, patience=self._patience, errors=S3_ERRORS, translate=self._translate(key), key=key
        )

    def _send(self, key: str, size: int, send: Callable[[], None]) -> None:
        """Send an object of ``size`` bytes that nobody else writes; where the reply was lost, it is looked for."""
        try:
            send()
        except SingerlakeError:
            raise
        except Exception as error:
            entry = None if meaning(error) is Meaning.FATAL else self._look_for(key)
            if entry is None or entry.size != size:
                if is_absent(error):
                    raise StorageUnavailableError("storage lost an upload", hint="run again", key=key) from error
                raise self._translate(key)(error) from error

    def _checked(self, key: str, size: int) -> Entry:
        """The entry of an object that was sent. Raises ``StorageUnavailableError`` where it has not ``size`` bytes."""
        entry = self.head(key)
        if entry is None or entry.size != size:
            raise StorageUnavailableError(
                "storage reports another size than was uploaded",
                hint="run again",
                key=key,
                sent=size,
                stored=entry.size if entry else None,
            )
        return entry

    def _fetch(self, **arguments: str) -> tuple[dict[str, Any], bytes]:
        """Reply and body of a GET. A body that breaks off is fetched again, which botocore does not do by itself."""
        from botocore.exceptions import BotoCoreError

        wait = self._patience.begin()
        while True:
            reply = self._clients.patient.get_object(Bucket=self._bucket, **arguments)
            try:
                return reply, reply["Body"].read()
            except BotoCoreError as error:
                if not wait.again(trouble(error)):
                    give_up(error, wait.given_up)
                    raise

    def _check_bucket(self) -> None:
        """HEAD has no body, so its 404 does not say whether it is the bucket that is missing."""
        if self._known.exists:
            return
        try:
            self._clients.patient.head_bucket(Bucket=self._bucket)
        except Exception as error:
            if is_absent(error):
                raise NoSuchBucketError(
                    "the bucket does not exist",
                    hint="check lake_root, aws_region and s3_endpoint_url",
                    lake_root=self.url,
                ) from error
        else:
            self._known.exists = True

    def _look_for(self, key: str) -> Entry | None:
        try:
            return self.head(key)
        except SingerlakeError:
            return None

    def _pages(self, prefix: str, **arguments: str) -> Iterator[dict[str, Any]]:
        try:
            paginator = self._clients.patient.get_paginator("list_objects_v2")
            yield from paginator.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix, **arguments)
        except Exception as error:
            raise self._translate(prefix)(error) from error

    def _entry(self, item: dict[str, Any]) -> Entry:
        return Entry(
            key=item["Key"][len(self._prefix) :],
            size=item["Size"],
            last_modified=item["LastModified"],
            etag=_bare(item["ETag"]),
        )

    def _encryption(self) -> dict[str, str]:
        if self._settings.kms_key_id is None:
            return {}
        return {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": self._settings.kms_key_id}

    def _translate(self, key: str) -> Callable[[Exception], SingerlakeError]:
        return lambda error: translate(error, self._settings, key=key, lake_root=self.url)


def _etag(reply: dict[str, Any]) -> str:
    """Of an object. Only what is no S3 gives none: a portal's page, say, that answers 200 to everything."""
    if "ETag" not in reply or "ResponseMetadata" not in reply:
        raise not_s3()
    return _bare(reply["ETag"])


def _bare(etag: str) -> str:
    return etag.strip('"')

"""What an S3 answer means: for a write that may be tried again, and for the person who reads the error.

Codes decide, statuses only where a reply carries no code of S3: one status stands for too many things. The codes are
those of https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and of the stores that speak S3.
"""

from __future__ import annotations

from functools import partial

from singerlake.aws import errors
from singerlake.aws.errors import BUSY_CODES, REFUSED_CREDENTIALS, code_of, explained_by, meaning_of_status, status_of
from singerlake.aws.settings import S3Settings
from singerlake.errors import (
    AccessDeniedError,
    ConditionNotSupportedError,
    MissingFileError,
    NameTooLongError,
    NoSuchBucketError,
    SettingError,
    SingerlakeError,
    StorageFullError,
    StorageUnavailableError,
)
from singerlake.storage.failures import masked, waited, without_answer
from singerlake.storage.lost_replies import DriverErrors, Meaning

_MEANINGS = {
    "PreconditionFailed": Meaning.REFUSED,
    "412": Meaning.REFUSED,
    "NoSuchKey": Meaning.REFUSED,
    "ConditionalRequestConflict": Meaning.CONFLICT,
    "OperationAborted": Meaning.CONFLICT,
    "Conflict": Meaning.CONFLICT,
    "409": Meaning.CONFLICT,
    **dict.fromkeys(BUSY_CODES, Meaning.BUSY),
    # An earlier try whose reply was lost may have ended it.
    "NoSuchUpload": Meaning.UNKNOWN,
}
_ABSENT = ("NoSuchKey", "404")
_OF_A_BUCKET = {"ListObjectsV2": _ABSENT, "PutObject": ("404",), "CreateMultipartUpload": ("404",)}
"""Operations that need no object to be there, and the codes that say of them that the bucket is not."""
_NO_BUCKET = "check lake_root, s3_endpoint_url and aws_region, and proxies on the way"
_WRONG_HOST = "check s3_endpoint_url, aws_region and lake_root"
_WRONG_PORT = "check host and port of s3_endpoint_url, that the server runs, and the network"
_PERMISSIONS = "grant s3:GetObject, s3:PutObject and s3:ListBucket, for maintenance s3:DeleteObject"
_KMS = "check s3_kms_key_id and that the credentials may use that key"
_EXPLAINED: dict[str, tuple[type[SingerlakeError], str, str]] = {
    "AccessDenied": (AccessDeniedError, "storage denied access", _PERMISSIONS),
    "Forbidden": (AccessDeniedError, "storage denied access", _PERMISSIONS),
    "403": (AccessDeniedError, "storage denied access", _PERMISSIONS),
    **REFUSED_CREDENTIALS,
    "NoSuchBucket": (NoSuchBucketError, "the bucket does not exist", "check lake_root, aws_region and s3_endpoint_url"),
    "NoSuchKey": (MissingFileError, "no such object", ""),
    "404": (MissingFileError, "no such object", ""),
    "NoSuchUpload": (
        StorageUnavailableError,
        "storage aborted a multipart upload",
        "run again; check the bucket for a lifecycle rule that aborts uploads too early",
    ),
    "KeyTooLongError": (
        NameTooLongError,
        "a name is too long for S3",
        "shorten the tap id, the stream name or lake_root",
    ),
    "InvalidBucketName": (SettingError, "that is not a bucket name", "check lake_root"),
    "PermanentRedirect": (SettingError, "the bucket is in another region", "set aws_region"),
    "301": (SettingError, "the bucket is in another region", "set aws_region"),
    "AuthorizationHeaderMalformed": (SettingError, "the bucket is in another region", "set aws_region"),
    "NotImplemented": (
        ConditionNotSupportedError,
        "storage does not know this request",
        "use a store without conditions",
    ),
    "501": (ConditionNotSupportedError, "storage does not know this request", "use a store without conditions"),
    "QuotaExceeded": (StorageFullError, "the bucket's quota is used up", "raise it or free space"),
    "XMinioStorageFull": (StorageFullError, "no space is left on storage", "free space"),
    "InsufficientCapacity": (StorageFullError, "no space is left on storage", "free space"),
    "507": (StorageFullError, "no space is left on storage", "free space"),
}


def meaning(error: Exception) -> Meaning:
    """What a failed request tells about its effect. Only errors of botocore have a meaning; others are raised again."""
    from botocore import exceptions as boto

    if isinstance(error, boto.ClientError):
        code = code_of(error)
        if code in _MEANINGS:
            return _MEANINGS[code]
        return Meaning.FATAL if code in _EXPLAINED or code.startswith("KMS.") else meaning_of_status(error)
    return Meaning.UNKNOWN if _is_other_body(error) else errors.meaning(error)


def is_absent(error: Exception) -> bool:
    """Whether a request failed because there is no such object."""
    return _code(error) in _ABSENT and not is_no_bucket(error)


def is_no_bucket(error: Exception) -> bool:
    """Whether an object was not found by a request that asks for none: what is missing is the bucket, or any S3."""
    from botocore.exceptions import ClientError

    if not isinstance(error, ClientError):
        return False
    # A server that is not S3 has no code of S3 on its page.
    return (code_of(error) or str(status_of(error))) in _OF_A_BUCKET.get(error.operation_name, ())


def is_past_end(error: Exception) -> bool:
    """Whether a ranged read failed because the range begins at the object's end or later."""
    return _code(error) in ("InvalidRange", "416")


def is_lost_upload(error: BaseException) -> bool:
    """Whether storage does not know an upload in parts, which is over then, whole or not."""
    return _code(error) == "NoSuchUpload"


def _code(error: BaseException) -> str:
    """The code of an answer; empty where it has none, or none came."""
    from botocore.exceptions import ClientError

    return code_of(error) if isinstance(error, ClientError) else ""


S3_ERRORS = DriverErrors(meaning, partial(errors.waits_for, judge=meaning))


def translate(error: Exception, settings: S3Settings, **context: object) -> SingerlakeError:
    """This package's error for one of botocore's, without secrets. Others are raised as they are."""
    from botocore import exceptions as boto
    from botocore.parsers import ResponseParserError

    if isinstance(error, ResponseParserError):
        return not_s3(**context)
    if isinstance(error, boto.ClientError):
        context |= errors.answer(error, settings)
        if code_of(error).startswith("KMS."):
            return AccessDeniedError("storage cannot use the encryption key", hint=_KMS, **context)
        if is_no_bucket(error):
            return NoSuchBucketError("the bucket does not exist, or the server is not S3", hint=_NO_BUCKET, **context)
        if explained_by(error) in _EXPLAINED:
            kind, message, hint = _EXPLAINED[explained_by(error)]
            return kind(message, hint=hint, **context)
        if meaning(error) is Meaning.FATAL:
            return SettingError("storage refused a request", hint="look at code and reason", **context)
        return StorageUnavailableError("storage could not answer", hint="run again later", **context, **waited(error))
    if errors.has_no_answer(error):
        return without_answer(error, "storage", wrong_host=_WRONG_HOST, wrong_port=_WRONG_PORT, **context)
    if _is_other_body(error):
        return StorageUnavailableError(
            "what storage sent does not fit the checksum that it sent with it",
            hint="run again; if this keeps happening, set s3_endpoint_url to a server that is not AWS",
            **context,
            error=type(error).__name__,
            reason=masked(str(error), settings.secrets()),
        )
    return errors.translate(error, settings, **context)


def not_s3(**context: object) -> SettingError:
    """What answers a request with what S3 never says."""
    return SettingError(
        "the server that answers is not S3", hint="check s3_endpoint_url, and proxies on the way", **context
    )


def _is_other_body(error: Exception) -> bool:
    """Whether the body of an answer does not fit the checksum that came with it."""
    from botocore import exceptions as boto

    return isinstance(error, (boto.ChecksumError, boto.FlexibleChecksumError))

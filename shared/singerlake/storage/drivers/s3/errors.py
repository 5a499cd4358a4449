"""What an S3 answer means: for a write that may be tried again, and for the person who reads the error.

Codes decide, statuses only where a reply carries no code of S3: one status stands for too many things. The codes are
those of https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and of the stores that speak S3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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
from singerlake.storage.failures import is_unknown_host, is_untrusted, masked, reason, waited, without_answer
from singerlake.storage.lost_replies import DriverErrors, Meaning
from singerlake.storage.patience import RetryReason

if TYPE_CHECKING:
    from singerlake.storage.drivers.s3.settings import S3Settings


_MEANINGS = {
    "PreconditionFailed": Meaning.REFUSED,
    "412": Meaning.REFUSED,
    "NoSuchKey": Meaning.REFUSED,
    "ConditionalRequestConflict": Meaning.CONFLICT,
    "OperationAborted": Meaning.CONFLICT,
    "Conflict": Meaning.CONFLICT,
    "409": Meaning.CONFLICT,
    "SlowDown": Meaning.BUSY,
    "SlowDownRead": Meaning.BUSY,
    "SlowDownWrite": Meaning.BUSY,
    "RequestTimeout": Meaning.BUSY,
    "Throttling": Meaning.BUSY,
    "ThrottlingException": Meaning.BUSY,
    "RequestLimitExceeded": Meaning.BUSY,
    "TooManyRequests": Meaning.BUSY,
    "429": Meaning.BUSY,
    # An earlier try whose reply was lost may have ended it.
    "NoSuchUpload": Meaning.UNKNOWN,
}
_ABSENT = ("NoSuchKey", "404")
_OF_A_BUCKET = {"ListObjectsV2": _ABSENT, "PutObject": ("404",), "CreateMultipartUpload": ("404",)}
"""Operations that need no object to be there, and the codes that say of them that the bucket is not."""
_NO_BUCKET = "check lake_root, s3_endpoint_url and aws_region, and proxies on the way"
_WRONG_HOST = "check s3_endpoint_url, aws_region and lake_root"
_WRONG_PORT = "check host and port of s3_endpoint_url, that the server runs, and the network"
_CREDENTIALS = "set aws_access_key_id and aws_secret_access_key, aws_profile, or AWS_* in the environment"
_PROCESS = "run its command by hand, and see that it prints credentials as AWS wants them, which have not expired"
_PERMISSIONS = "grant s3:GetObject, s3:PutObject and s3:ListBucket, for maintenance s3:DeleteObject"
_CLOCK = "set the clock of this machine"
_KMS = "check s3_kms_key_id and that the credentials may use that key"
_EXPLAINED: dict[str, tuple[type[SingerlakeError], str, str]] = {
    "AccessDenied": (AccessDeniedError, "storage denied access", _PERMISSIONS),
    "Forbidden": (AccessDeniedError, "storage denied access", _PERMISSIONS),
    "403": (AccessDeniedError, "storage denied access", _PERMISSIONS),
    "InvalidAccessKeyId": (AccessDeniedError, "storage does not know the access key", "check aws_access_key_id"),
    "InvalidClientTokenId": (AccessDeniedError, "AWS does not know the access key", "check aws_access_key_id"),
    "SignatureDoesNotMatch": (
        AccessDeniedError,
        "the secret does not belong to the access key",
        "check aws_secret_access_key",
    ),
    "ExpiredToken": (AccessDeniedError, "the session token has expired", "renew aws_session_token"),
    "ExpiredTokenException": (AccessDeniedError, "the session token has expired", "renew aws_session_token"),
    "TokenRefreshRequired": (AccessDeniedError, "the session token has expired", "renew aws_session_token"),
    "InvalidToken": (AccessDeniedError, "the session token is not valid", "check aws_session_token"),
    "RequestTimeTooSkewed": (AccessDeniedError, "this machine's clock is too far from that of storage", _CLOCK),
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
    """What a failed write tells about its effect. Only errors of botocore have a meaning; others are raised again."""
    from botocore import exceptions as boto
    from botocore.parsers import ResponseParserError

    if isinstance(error, boto.ClientError):
        code, status = _code(error), _status(error)
        if code in _MEANINGS:
            return _MEANINGS[code]
        if code in _EXPLAINED or code.startswith("KMS."):
            return Meaning.FATAL
        return {409: Meaning.CONFLICT, 412: Meaning.REFUSED, 429: Meaning.BUSY, 501: Meaning.FATAL}.get(
            status, Meaning.UNKNOWN if status >= 500 else Meaning.FATAL
        )
    if isinstance(error, (boto.EndpointConnectionError, boto.ConnectTimeoutError, boto.ProxyConnectionError)):
        return Meaning.BUSY
    if isinstance(error, boto.SSLError) and is_untrusted(error):
        return Meaning.FATAL
    if isinstance(error, (boto.HTTPClientError, boto.ConnectionError)) or _is_other_body(error):
        return Meaning.UNKNOWN
    if isinstance(error, (boto.BotoCoreError, ResponseParserError)):
        return Meaning.FATAL
    raise error


def is_absent(error: Exception) -> bool:
    """Whether a request failed because there is no such object."""
    from botocore.exceptions import ClientError

    return isinstance(error, ClientError) and _code(error) in _ABSENT and not is_no_bucket(error)


def is_no_bucket(error: Exception) -> bool:
    """Whether a request failed in the words for an object that is not there, though it asks for none: what is not there
    is the bucket, or any S3."""
    from botocore.exceptions import ClientError

    if not isinstance(error, ClientError):
        return False
    # A server that is not S3 has no code of S3 on its page.
    return (_code(error) or str(_status(error))) in _OF_A_BUCKET.get(error.operation_name, ())


def is_past_end(error: Exception) -> bool:
    """Whether a ranged read failed because the range begins at the object's end or later."""
    from botocore.exceptions import ClientError

    return isinstance(error, ClientError) and _code(error) in ("InvalidRange", "416")


def is_lost_upload(error: BaseException) -> bool:
    """Whether storage does not know an upload in parts, which is over then, whole or not."""
    from botocore.exceptions import ClientError

    return isinstance(error, ClientError) and _code(error) == "NoSuchUpload"


def trouble(error: Exception, judge: Callable[[Exception], Meaning] = meaning) -> RetryReason:
    """What a request that may be sent again waits for."""
    from botocore import exceptions as boto

    if judge(error) is Meaning.CONFLICT:
        return RetryReason.CONFLICT
    if not isinstance(error, (boto.HTTPClientError, boto.ConnectionError)):
        return RetryReason.BUSY
    return RetryReason.NO_SUCH_HOST if is_unknown_host(error) else RetryReason.SILENT


S3_ERRORS = DriverErrors(meaning, trouble)


def translate(error: Exception, settings: S3Settings, **context: object) -> SingerlakeError:
    """This package's error for one of botocore's, with the store's own words but without secrets. What is not
    botocore's is raised as it is."""
    from botocore import exceptions as boto
    from botocore.parsers import ResponseParserError

    if isinstance(error, ResponseParserError):
        return not_s3(**context)
    if not isinstance(error, (boto.ClientError, boto.BotoCoreError)):
        raise error
    if isinstance(error, boto.ClientError):
        code = _code(error)
        context |= {"code": code or f"HTTP {_status(error)}"}
        said = masked(str(_details(error).get("Message") or ""), settings.secrets())
        if said:
            context["reason"] = said
        if code.startswith("KMS."):
            return AccessDeniedError("storage cannot use the encryption key", hint=_KMS, **context)
        if is_no_bucket(error):
            return NoSuchBucketError("the bucket does not exist, or the server is not S3", hint=_NO_BUCKET, **context)
        if _explained(error) in _EXPLAINED:
            kind, message, hint = _EXPLAINED[_explained(error)]
            return kind(message, hint=hint, **context)
        if meaning(error) is Meaning.FATAL:
            return SettingError("storage refused a request", hint="look at code and reason", **context)
        return StorageUnavailableError("storage could not answer", hint="run again later", **context, **waited(error))
    if isinstance(error, (boto.HTTPClientError, boto.ConnectionError, boto.IncompleteReadError)):
        return without_answer(error, "storage", wrong_host=_WRONG_HOST, wrong_port=_WRONG_PORT, **context)
    context = {**context, "error": type(error).__name__}
    if isinstance(error, (boto.NoCredentialsError, boto.PartialCredentialsError)):
        return AccessDeniedError("there are no complete credentials", hint=_CREDENTIALS, **context)
    if isinstance(error, (boto.CredentialRetrievalError, boto.TokenRetrievalError, boto.SSOError)):
        provider = error.kwargs.get("provider")
        # Of what it says, only the system's own words: a command may have written anything.
        context |= {**({"provider": provider} if provider else {}), **reason(error)}
        if provider == "custom-process":
            return AccessDeniedError("credential_process of the AWS profile failed", hint=_PROCESS, **context)
        return AccessDeniedError(
            "credentials could not be loaded", hint="sign in again, or check aws_profile", **context
        )
    context["reason"] = masked(str(error), settings.secrets())
    if isinstance(error, (boto.ChecksumError, boto.FlexibleChecksumError)):
        return StorageUnavailableError(
            "what storage sent does not fit the checksum that it sent with it",
            hint="run again; where it stays so, set s3_endpoint_url to a server that is not AWS",
            **context,
        )
    hint = "check lake_root and the aws_ ones"
    return SettingError("no request can be made with these settings", hint=hint, **context)


def not_made(error: Exception, settings: S3Settings) -> SingerlakeError:
    """This package's error for one of botocore's with which no client is made: of credentials, of the files that
    describe them, or of the settings."""
    from botocore import exceptions as boto

    credentials = (
        boto.NoCredentialsError,
        boto.PartialCredentialsError,
        boto.CredentialRetrievalError,
        boto.TokenRetrievalError,
        boto.SSOError,
    )
    if isinstance(error, credentials):
        return translate(error, settings)
    said = masked(str(error), settings.secrets())
    if isinstance(error, (boto.InvalidConfigError, boto.ConfigNotFound, boto.ConfigParseError)):
        hint = "check aws_profile and the files of AWS that describe it"
        return AccessDeniedError("the AWS profile cannot be used", hint=hint, reason=said)
    hint = "check the aws_ ones and the endpoint"
    return SettingError("no AWS client can be made with these settings", hint=hint, reason=said)


def is_denied(error: Exception) -> bool:
    """Whether a server refused the credentials, or what they may do."""
    return _EXPLAINED.get(_explained(error), (None,))[0] is AccessDeniedError


def not_s3(**context: object) -> SettingError:
    """What answers a request with what S3 never says."""
    return SettingError(
        "the server that answers is not S3", hint="check s3_endpoint_url, and proxies on the way", **context
    )


def _is_other_body(error: Exception) -> bool:
    """Whether the body of an answer is not what was sent: it ends too early, or does not fit its checksum."""
    from botocore import exceptions as boto

    return isinstance(error, (boto.IncompleteReadError, boto.ChecksumError, boto.FlexibleChecksumError))


def _details(error: Any) -> dict[str, Any]:
    details: dict[str, Any] = error.response.get("Error", {})
    return details


def _code(error: Any) -> str:
    return str(_details(error).get("Code") or "")


def _explained(error: Any) -> str:
    """The code to look an error up by. Without one, two statuses mean one thing alone."""
    status = _status(error)
    return _code(error) or (str(status) if status in (403, 501) else "")


def _status(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))

"""What botocore's errors mean that are not answers of one service, and the codes that all services have in common.
Codes decide, statuses only where there is no code. See
https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and
https://docs.aws.amazon.com/STS/latest/APIReference/CommonErrors.html."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from singerlake.aws.settings import S3Settings
from singerlake.errors import AccessDeniedError, SettingError, SingerlakeError
from singerlake.storage.failures import is_unknown_host, is_untrusted, masked, reason
from singerlake.storage.lost_replies import Meaning
from singerlake.storage.patience import RetryReason

BUSY_CODES = (
    "SlowDown",
    "SlowDownRead",
    "SlowDownWrite",
    "RequestTimeout",
    "Throttling",
    "ThrottlingException",
    "RequestLimitExceeded",
    "TooManyRequests",
    "429",
)
"""Nothing happened, try again later."""
_CREDENTIALS = "set aws_access_key_id and aws_secret_access_key, aws_profile, or AWS_* in the environment"
_PROCESS = "run its command by hand, and see that it prints credentials as AWS wants them, which have not expired"
_CLOCK = "set the clock of this machine"
REFUSED_CREDENTIALS: dict[str, tuple[type[SingerlakeError], str, str]] = {
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
}
"""By the code of an answer: the error, its message and the next step."""


def meaning(error: Exception) -> Meaning:
    """What a request without an answer tells about its effect. What is not botocore's is raised again."""
    from botocore import exceptions as boto
    from botocore.parsers import ResponseParserError

    if isinstance(error, (boto.EndpointConnectionError, boto.ConnectTimeoutError, boto.ProxyConnectionError)):
        return Meaning.BUSY
    if isinstance(error, boto.SSLError) and is_untrusted(error):
        return Meaning.FATAL
    if has_no_answer(error):
        return Meaning.UNKNOWN
    if isinstance(error, (boto.BotoCoreError, ResponseParserError)):
        return Meaning.FATAL
    raise error


def meaning_of_status(error: Exception) -> Meaning:
    """What an answer whose code says nothing tells about the effect of a request."""
    status = status_of(error)
    return {409: Meaning.CONFLICT, 412: Meaning.REFUSED, 429: Meaning.BUSY, 501: Meaning.FATAL}.get(
        status, Meaning.UNKNOWN if status >= 500 else Meaning.FATAL
    )


def has_no_answer(error: Exception) -> bool:
    """Whether no answer came, or not the whole."""
    from botocore import exceptions as boto

    return isinstance(error, (boto.HTTPClientError, boto.ConnectionError, boto.IncompleteReadError))


def waits_for(error: Exception, judge: Callable[[Exception], Meaning]) -> RetryReason:
    """What a request that may be sent again waits for; ``judge`` gives the meaning of the error."""
    if judge(error) is Meaning.CONFLICT:
        return RetryReason.CONFLICT
    if not has_no_answer(error):
        return RetryReason.BUSY
    return RetryReason.NO_SUCH_HOST if is_unknown_host(error) else RetryReason.SILENT


def translate(error: Exception, settings: S3Settings, **context: object) -> SingerlakeError:
    """This package's error for one of botocore's of credentials or settings, without secrets. Others are raised."""
    from botocore import exceptions as boto

    if not isinstance(error, boto.BotoCoreError):
        raise error
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
    hint = "check lake_root and the aws_ ones"
    return SettingError("no request can be made with these settings", hint=hint, **context)


def not_made(error: Exception, settings: S3Settings) -> SingerlakeError:
    """This package's error for one of botocore's with which no client is made."""
    from botocore import exceptions as boto

    known = translate(error, settings)
    if isinstance(known, AccessDeniedError):
        return known
    said = masked(str(error), settings.secrets())
    if isinstance(error, (boto.InvalidConfigError, boto.ConfigNotFound, boto.ConfigParseError)):
        hint = "check aws_profile and the files of AWS that describe it"
        return AccessDeniedError("the AWS profile cannot be used", hint=hint, reason=said)
    hint = "check the aws_ ones and the endpoint"
    return SettingError("no AWS client can be made with these settings", hint=hint, reason=said)


def answer(error: Exception, settings: S3Settings) -> dict[str, object]:
    """The code of an answer, and its words without secrets, as context of this package's error."""
    said = masked(str(details(error).get("Message") or ""), settings.secrets())
    return {"code": code_of(error) or f"HTTP {status_of(error)}", **({"reason": said} if said else {})}


def details(error: Any) -> dict[str, Any]:
    found: dict[str, Any] = error.response.get("Error", {})
    return found


def code_of(error: Any) -> str:
    """The code of an answer; empty where it has none."""
    return str(details(error).get("Code") or "")


def explained_by(error: Any) -> str:
    """The code to look an error up by. Without one, two statuses mean one thing alone."""
    status = status_of(error)
    return code_of(error) or (str(status) if status in (403, 501) else "")


def status_of(error: Any) -> int:
    return int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))

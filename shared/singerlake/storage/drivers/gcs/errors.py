"""What an answer of Google Cloud Storage means: for a write that may be tried again, and for the person who reads it.
Statuses and reasons are those of https://cloud.google.com/storage/docs/json_api/v1/status-codes; a hold is told by its
words alone. A write to one object may be sent about once a second; what comes faster is answered with 429
(https://cloud.google.com/storage/quotas#objects)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from singerlake.errors import (
    AccessDeniedError,
    ConditionNotSupportedError,
    NoSuchBucketError,
    SettingError,
    SingerlakeError,
    StorageUnavailableError,
)
from singerlake.storage.drivers.gcs.settings import GcsSettings
from singerlake.storage.failures import causes, is_unknown_host, is_untrusted, masked, reason, waited, without_answer
from singerlake.storage.lost_replies import DriverErrors, Meaning
from singerlake.storage.patience import RetryReason

_NO_BUCKET = "singerlake_no_bucket"
_WRONG_HOST = "check gcs_endpoint_url and lake_root"
_WRONG_PORT = "check host and port of gcs_endpoint_url, that the server runs, and the network"
_OAUTH_CODE = re.compile(r"\b(?:invalid|unauthorized|unsupported|access|temporarily)_[a-z_]+\b")
_MEANINGS = {409: Meaning.CONFLICT, 412: Meaning.REFUSED, 429: Meaning.BUSY, 408: Meaning.UNKNOWN}

CREDENTIALS = (
    "set gcs_service_account_file or GOOGLE_APPLICATION_CREDENTIALS, or run 'gcloud auth application-default login'"
)
_ROLE = "roles/storage.objectUser has what a lake needs"
_PROJECT = "set gcs_user_project to a project that you may bill, with serviceusage.services.use on it"
_KEPT = "wait until it may be removed, then run again; writers need a bucket that lets objects be replaced"
_HELD = "release the hold, or wait until it ends; a later run removes what was left"
_UNAVAILABLE = StorageUnavailableError
_PERMISSION = re.compile(r"\bstorage\.[a-zA-Z]+\.[a-zA-Z]+\b")


def meaning(error: Exception) -> Meaning:
    """What a failed write tells about its effect. What is not Google's, or of its transport, is raised again."""
    import requests
    import urllib3
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError

    if isinstance(error, GoogleAPICallError):
        case = _case(error)
        if _code(error) == 404 and not is_no_bucket(error):
            return Meaning.REFUSED
        if case is not None:
            return case.means
        return _MEANINGS.get(_code(error), Meaning.UNKNOWN if _code(error) >= 500 else Meaning.FATAL)
    if isinstance(error, GoogleAuthError):
        # Of a request whose token could not be got, nothing was sent that storage accepted.
        return Meaning.BUSY if _is_passing(error) else Meaning.FATAL
    if isinstance(error, (requests.exceptions.SSLError, urllib3.exceptions.SSLError)) and is_untrusted(error):
        return Meaning.FATAL
    if isinstance(error, _broken()):
        return Meaning.BUSY if _never_connected(error) else Meaning.UNKNOWN
    if isinstance(error, (requests.exceptions.RequestException, urllib3.exceptions.HTTPError)):
        return Meaning.FATAL
    raise error


def is_no_bucket(error: Exception) -> bool:
    """Whether a 404 is about the bucket: in Google's words, or as it was found out."""
    return getattr(error, _NO_BUCKET, False) or "bucket does not exist" in said(error)[1]


def no_bucket(error: Exception) -> Exception:
    """A 404 that is about the bucket, whatever its words."""
    setattr(error, _NO_BUCKET, True)
    return error


def is_no_object(error: Exception) -> bool:
    """Whether a 404 is about an object, in Google's words. Other words leave open what is missing."""
    return "No such object" in said(error)[1]


def trouble(error: Exception) -> RetryReason:
    """What a request that may be sent again waits for."""
    from google.api_core.exceptions import GoogleAPICallError

    if meaning(error) is Meaning.CONFLICT:
        return RetryReason.CONFLICT
    if isinstance(error, GoogleAPICallError):
        return RetryReason.BUSY
    return RetryReason.NO_SUCH_HOST if is_unknown_host(error) else RetryReason.SILENT


def retry_after(error: Exception) -> float:
    """The seconds that a reply asks to wait."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    asked = headers.get("Retry-After") or ""
    if asked.isdecimal():
        return float(asked)
    try:
        until, now = parsedate_to_datetime(asked), parsedate_to_datetime(headers.get("Date") or "")
        return max(0.0, (until - now).total_seconds())
    except (TypeError, ValueError):
        return 0.0


GCS_ERRORS = DriverErrors(meaning, trouble, retry_after)


def translate(error: Exception, settings: GcsSettings, **context: object) -> SingerlakeError:
    """This package's error for one of Google's libraries, without secrets. Others are raised as they are."""
    import requests
    import urllib3
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError

    if isinstance(error, GoogleAPICallError):
        return _refusal(error, settings, context)
    if isinstance(error, GoogleAuthError):
        return _no_token(error, settings, context)
    if isinstance(error, _broken()):
        return without_answer(error, "storage", wrong_host=_WRONG_HOST, wrong_port=_WRONG_PORT, **context)
    if isinstance(error, (requests.exceptions.RequestException, urllib3.exceptions.HTTPError)):
        hint = "check lake_root and gcs_endpoint_url"
        name = type(error).__name__
        return SettingError("no request can be made with these settings", hint=hint, **context, error=name)
    raise error


def said(error: Any) -> tuple[str, str]:
    """The reason that a reply names, and its words."""
    try:
        details = error.response.json()["error"]
        reasons = [each.get("reason") for each in details.get("errors", ()) if isinstance(each, dict)]
        return str(next(filter(None, reasons), details.get("status", ""))), str(details.get("message", ""))
    except (AttributeError, KeyError, TypeError, ValueError):
        text = getattr(getattr(error, "response", None), "text", "") or ""
        # A page is not for a log.
        return "", "" if text.lstrip().startswith("<") else text[:300]


def _refusal(error: Any, settings: GcsSettings, context: dict[str, object]) -> SingerlakeError:
    code, words = said(error)
    context = {**context, "code": code or f"HTTP {_code(error)}"}
    words = masked(words, settings.secrets())
    if words:
        context["reason"] = words
    case = _case(error)
    if case is not None:
        hint = case.hint_for(words, settings.credentials_from)
        return case.kind(case.message, hint=hint, **context, **waited(error))
    if meaning(error) in (Meaning.FATAL, Meaning.REFUSED):
        return SettingError("storage refused a request", hint="look at code and reason", **context)
    return StorageUnavailableError("storage could not answer", hint="run again later", **context, **waited(error))


def _no_token(error: Exception, settings: GcsSettings, context: dict[str, object]) -> SingerlakeError:
    """What google-auth says may show what a server of tokens answered, so only its codes are told."""
    from google.auth import exceptions as auth

    context = {**context, "error": type(error).__name__}
    code = _OAUTH_CODE.search(str(error.args[0])) if error.args else None
    if code is not None:
        context["code"] = code[0]
    if isinstance(error, auth.DefaultCredentialsError):
        return AccessDeniedError("there are no credentials for Google Cloud", hint=CREDENTIALS, **context)
    if _is_passing(error):
        return StorageUnavailableError(
            "the server that gives access tokens does not answer",
            hint="check the network, and the token_uri or token_url of the credentials; or run again later",
            **context,
            **reason(error),
            **waited(error),
        )
    return AccessDeniedError(
        "no access token was given for the credentials",
        hint=f"check {settings.credentials_from}: its key may be deleted or expired, or this machine's clock wrong; or"
        " sign in again",
        **context,
    )


def _case(error: Any) -> Case | None:
    return case_of(_code(error), " ".join(said(error)))


def _code(error: Any) -> int:
    return int(error.code or 0)


def _broken() -> tuple[type[Exception], ...]:
    """The errors of a connection that was not made, or broke."""
    import requests
    import urllib3

    return (
        requests.exceptions.ConnectionError,
        requests.exceptions.Timeout,
        requests.exceptions.ChunkedEncodingError,
        requests.exceptions.ContentDecodingError,
        urllib3.exceptions.ProtocolError,
        urllib3.exceptions.TimeoutError,
        urllib3.exceptions.SSLError,
        urllib3.exceptions.DecodeError,
    )


def _never_connected(error: Exception) -> bool:
    import requests
    import urllib3

    never = (requests.exceptions.ConnectTimeout, requests.exceptions.ProxyError, urllib3.exceptions.ConnectTimeoutError)
    return any(isinstance(each, (*never, urllib3.exceptions.NewConnectionError)) for each in causes(error))


def _is_passing(error: Any) -> bool:
    """Whether a token may be got later: google-auth says so, or no answer came."""
    return bool(error.retryable) or any(isinstance(each, _broken()) for each in causes(error))


@dataclass(frozen=True, slots=True)
class Case:
    """Refusals with this ``status`` whose reason or words match ``says``."""

    status: int
    says: str
    message: str
    hint: str
    kind: type[SingerlakeError] = AccessDeniedError
    means: Meaning = Meaning.FATAL

    def hint_for(self, words: str, credentials_from: str) -> str:
        """The next step; names the permission that Google's words name, and what gives the credentials."""
        permission = _PERMISSION.search(words)
        if permission and _ROLE in self.hint:
            return f"grant {permission[0]} on the bucket; {_ROLE}"
        return self.hint.replace("{credentials}", credentials_from)


_CASES = (
    Case(
        400, "requester pays|UserProjectMissing", "requests to this bucket are to be paid for", _PROJECT, SettingError
    ),
    Case(400, "user ?project", "storage does not know the project to be billed", _PROJECT, SettingError),
    Case(400, "invalid bucket name", "that is not a bucket name", "check lake_root", SettingError),
    Case(400, "kms", "storage cannot use the encryption key", "check gcs_kms_key_name", SettingError),
    # The bytes that came were not those that were sent, and storage kept none of them.
    Case(400, "match calculated", "bytes changed on their way to storage", "run again", _UNAVAILABLE, Meaning.BUSY),
    Case(401, "anonymous", "storage wants credentials, and there are none", CREDENTIALS),
    Case(
        401,
        "",
        "storage does not accept the credentials",
        "check {credentials}, whose key may be deleted; or sign in again",
    ),
    Case(403, "retentionPolicyNotMet", "a retention policy keeps the object", _KEPT),
    Case(403, "objectUnderActiveHold|under active .*hold", "a hold keeps the object", _HELD),
    Case(
        403,
        "accountDisabled|billing ?(NotEnabled|account|is)",
        "billing of the bucket's project is off",
        "turn it on in the console of Google Cloud",
    ),
    Case(403, "userProject|serviceusage", "the project may not be billed", _PROJECT),
    Case(
        403,
        "kms",
        "storage may not use the encryption key",
        "grant roles/cloudkms.cryptoKeyEncrypterDecrypter on gcs_kms_key_name to the service agent of Cloud Storage",
    ),
    Case(
        403,
        "vpcServiceControls|organization.s policy",
        "a policy of the organization forbids the request",
        "ask for access from this network, which VPC Service Controls may keep out",
    ),
    Case(403, "accessNotConfigured", "the Cloud Storage API is off", "turn it on for the credentials' project"),
    Case(403, "rateLimitExceeded|quotaExceeded", "storage is busy", "run again later", _UNAVAILABLE, Meaning.BUSY),
    Case(403, "", "storage denied access", f"look at reason; {_ROLE}"),
    Case(404, "", "the bucket does not exist", "check lake_root and gcs_endpoint_url", NoSuchBucketError),
    Case(
        412,
        "orgPolicy|constraints/",
        "a policy of the organization forbids the request",
        "look at reason, and at gcs_kms_key_name",
    ),
    Case(501, "", "storage does not know this request", "use a store without conditions", ConditionNotSupportedError),
)


def case_of(status: int, said: str) -> Case | None:
    """The first case that a refusal with this status fits, whose reason and words are ``said``."""
    fitting = (case for case in _CASES if case.status == status)
    return next((case for case in fitting if re.search(case.says, said, re.IGNORECASE)), None)

"""What an answer of Azure means: for a write that may be tried again, and for the person who reads the error.

Codes decide, statuses only where a reply carries no code. The codes are those of
https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from singerlake.errors import (
    AccessDeniedError,
    MissingFileError,
    NoSuchBucketError,
    SettingError,
    SingerlakeError,
    StorageFullError,
    StorageUnavailableError,
)
from singerlake.storage.azure.settings import AzureSettings
from singerlake.storage.lost_replies import DriverErrors, Meaning
from singerlake.storage.patience import DOWN, GivenUp, RetryReason

_MEANINGS = {
    "BlobAlreadyExists": Meaning.REFUSED,
    "ConditionNotMet": Meaning.REFUSED,
    "TargetConditionNotMet": Meaning.REFUSED,
    "BlobNotFound": Meaning.REFUSED,
    "OperationTimedOut": Meaning.UNKNOWN,
    "ServerBusy": Meaning.UNKNOWN,
    "InternalError": Meaning.UNKNOWN,
}
_ROLES = "grant the role Storage Blob Data Contributor, or Storage Blob Data Reader to read"
_IMMUTABLE = "end the legal hold or wait for the end of the retention period"
_LEASE = "break the lease of the blob"
_EXPLAINED: dict[str, tuple[type[SingerlakeError], str, str]] = {
    "AuthenticationFailed": (
        AccessDeniedError,
        "Azure does not accept the credentials",
        "check azure_account_key, renew azure_sas_token, and set the clock of this machine",
    ),
    "InvalidAuthenticationInfo": (
        AccessDeniedError,
        "Azure does not accept the credentials",
        "check azure_account_key and azure_sas_token",
    ),
    "NoAuthenticationInformation": (
        AccessDeniedError,
        "Azure asks for credentials",
        "set azure_account_key or azure_sas_token",
    ),
    "AuthorizationFailure": (
        AccessDeniedError,
        "Azure denied access",
        f"check azure_account_key, azure_sas_token and the account's firewall; {_ROLES}",
    ),
    "AuthorizationPermissionMismatch": (AccessDeniedError, "Azure denied access", _ROLES),
    "InsufficientAccountPermissions": (AccessDeniedError, "Azure denied access", _ROLES),
    "AuthorizationProtocolMismatch": (
        AccessDeniedError,
        "the SAS token allows another protocol",
        "check azure_sas_token",
    ),
    "AuthorizationServiceMismatch": (
        AccessDeniedError,
        "the SAS token is not for blobs",
        "make one for the Blob service",
    ),
    "AuthorizationResourceTypeMismatch": (
        AccessDeniedError,
        "the SAS token is not for this kind of resource",
        "make one for containers and objects",
    ),
    "AccountIsDisabled": (AccessDeniedError, "the storage account is disabled", "enable it"),
    "ContainerNotFound": (
        NoSuchBucketError,
        "the container does not exist",
        "check lake_root and azure_account_name",
    ),
    "ContainerBeingDeleted": (NoSuchBucketError, "the container is being deleted", "make it again, or use another"),
    "BlobNotFound": (MissingFileError, "no such object", ""),
    "BlobImmutableDueToPolicy": (AccessDeniedError, "a policy keeps the object from being changed", _IMMUTABLE),
    "BlobImmutableDueToLegalHold": (AccessDeniedError, "a legal hold keeps the object from being changed", _IMMUTABLE),
    "LeaseIdMissing": (AccessDeniedError, "somebody holds a lease of the object", _LEASE),
    "LeaseIdMismatchWithBlobOperation": (AccessDeniedError, "somebody holds a lease of the object", _LEASE),
    "InvalidResourceName": (SettingError, "a name is not allowed on Azure", "check lake_root"),
    "AccountQuotaExceeded": (StorageFullError, "the storage account is full", "free space"),
}
_GIVEN_UP = "singerlake_given_up"
_SIGNATURE = re.compile(r"(sig=)[^&\s]+")


def code_of(error: Any) -> str:
    """Azure's code, which a HEAD's answer has in a header alone; empty where there is none."""
    code = getattr(error, "error_code", None)
    if not code:
        headers = getattr(getattr(error, "response", None), "headers", None) or {}
        code = headers.get("x-ms-error-code", "")
    return str(getattr(code, "value", code))


def meaning(error: Exception) -> Meaning:
    """What a failed write tells about its effect. Only errors of the SDK have a meaning; others are raised again."""
    from azure.core import exceptions as azure

    if isinstance(error, azure.ClientAuthenticationError) or not isinstance(error, azure.AzureError):
        if isinstance(error, azure.AzureError):
            return Meaning.FATAL
        raise error
    if isinstance(error, azure.HttpResponseError) and error.status_code:
        code = code_of(error)
        if code in _MEANINGS:
            return _MEANINGS[code]
        if code in _EXPLAINED:
            return Meaning.FATAL
        status = int(error.status_code)
        return {408: Meaning.UNKNOWN, 409: Meaning.CONFLICT, 412: Meaning.REFUSED, 429: Meaning.BUSY}.get(
            status, Meaning.UNKNOWN if status >= 500 else Meaning.FATAL
        )
    if isinstance(error, azure.ServiceRequestError):
        return Meaning.FATAL if _never_connected(error) else Meaning.BUSY
    return Meaning.UNKNOWN


def is_absent(error: Exception) -> bool:
    """Whether a request failed because there is no such blob, in a container that is there."""
    return code_of(error) == "BlobNotFound"


def is_past_end(error: Exception) -> bool:
    """Whether a ranged read failed because the range begins at the blob's end or later."""
    return code_of(error) == "InvalidRange"


def _reason(error: Exception) -> RetryReason:
    if meaning(error) is Meaning.CONFLICT:
        return RetryReason.CONFLICT
    if getattr(error, "status_code", None):
        return RetryReason.BUSY
    names = [each.errno for each in _causes(error) if isinstance(each, socket.gaierror)]
    return RetryReason.NO_SUCH_HOST if names and socket.EAI_AGAIN not in names else RetryReason.SILENT


def _give_up(error: Exception, how: GivenUp | None) -> None:
    setattr(error, _GIVEN_UP, how)


def _retry_after(error: Exception) -> float:
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    with suppress(ValueError):
        if milliseconds := headers.get("x-ms-retry-after-ms"):
            return float(milliseconds) / 1000
        return float(headers.get("Retry-After", 0))
    return 0.0


AZURE_ERRORS = DriverErrors(meaning, _reason, _give_up, _retry_after)


def translate(error: Exception, settings: AzureSettings, **context: object) -> SingerlakeError:
    """This package's error for one of the SDK's, with Azure's own words but without secrets. What is not the SDK's is
    raised as it is."""
    from azure.core import exceptions as azure

    if not isinstance(error, azure.AzureError):
        raise error
    how: GivenUp | None = getattr(error, _GIVEN_UP, None)
    if how is not None:
        context = {**context, "waited_seconds": round(how.seconds, 1)}
    if isinstance(error, azure.HttpResponseError) and error.status_code:
        code = code_of(error)
        context = {**context, "code": code or f"HTTP {error.status_code}", "reason": _words(error, settings)}
        if code in _EXPLAINED:
            kind, message, hint = _EXPLAINED[code]
            return kind(message, hint=hint, **context)
        if error.status_code in (401, 403):
            return AccessDeniedError("Azure denied access", hint=_ROLES, **context)
        if meaning(error) is Meaning.FATAL:
            return SettingError("storage refused a request", hint="look at code and reason", **context)
        return StorageUnavailableError("storage could not answer", hint="run again later", **context)
    context = {**context, "error": type(error).__name__, "reason": _words(error, settings)}
    if isinstance(error, azure.ClientAuthenticationError):
        return AccessDeniedError(
            "there are no credentials for Azure",
            hint="set azure_account_key or azure_sas_token, or sign in with the Azure CLI",
            **context,
        )
    wrong = "check azure_account_name, azure_endpoint_url and the network"
    if how is not None and how.answered:
        return StorageUnavailableError("storage answered before and no longer does", hint=DOWN, **context)
    if how is not None and how.trouble is RetryReason.NO_SUCH_HOST:
        return SettingError("the host name of storage is not known", hint=wrong, **context)
    return StorageUnavailableError("storage cannot be reached", hint=wrong, **context)


def _words(error: Any, settings: AzureSettings) -> str:
    text = str(getattr(error, "message", "") or error).partition("\n")[0][:300]
    for secret in settings.secrets():
        text = text.replace(secret, "***")
    return _SIGNATURE.sub(r"\1***", text)


def _never_connected(error: Exception) -> bool:
    """Whether TLS failed before anything was sent: a certificate that is not trusted, or no TLS at all."""
    text = str(error).upper()
    return "CERTIFICATE" in text or "WRONG_VERSION_NUMBER" in text


def _causes(error: BaseException) -> Iterator[BaseException]:
    """An error and what it came from."""
    left: list[BaseException | None] = [error]
    seen: set[int] = set()
    while left:
        each = left.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            yield each
            left += [each.__context__, each.__cause__]
            left += [inside for inside in each.args if isinstance(inside, BaseException)]
            reason = getattr(each, "reason", None)
            left += [reason] if isinstance(reason, BaseException) else []

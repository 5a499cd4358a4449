"""What an answer of Azure means for a request that may be tried again, and which error it becomes.

Codes decide, statuses only where a reply carries none: one status stands for too many things.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from singerlake.errors import AccessDeniedError, SettingError, SingerlakeError, StorageUnavailableError
from singerlake.storage.drivers.azure.explained import CREDENTIALS, Explained, by_status, expired, explained, of_time
from singerlake.storage.drivers.azure.transport import broken, is_of_storage, without_secrets
from singerlake.storage.failures import waited, without_answer
from singerlake.storage.lost_replies import DriverErrors, Meaning
from singerlake.storage.patience import RetryReason

# ServerBusy says that requests cannot be received, and metrics count it as throttling alone, so nothing happened.
# OperationTimedOut and InternalError come of a request that was under way. See
# https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes and
# https://learn.microsoft.com/rest/api/storageservices/storage-analytics-logged-operations-and-status-messages
_MEANINGS = {
    "ConditionNotMet": Meaning.REFUSED,
    "TargetConditionNotMet": Meaning.REFUSED,
    "BlobAlreadyExists": Meaning.REFUSED,
    "BlobNotFound": Meaning.REFUSED,
    "PathNotFound": Meaning.REFUSED,
    "BlobOverwritten": Meaning.CONFLICT,
    "BlobModifiedWhileReading": Meaning.CONFLICT,
    "PendingCopyOperation": Meaning.CONFLICT,
    "ServerBusy": Meaning.BUSY,
    "TooManyRequests": Meaning.BUSY,
    "AccountBeingCreated": Meaning.BUSY,
    "OperationTimedOut": Meaning.UNKNOWN,
    "InternalError": Meaning.UNKNOWN,
}
_ABSENT = ("BlobNotFound", "PathNotFound")
_NOT_KNOWN = ("AuthenticationFailed", "InvalidAuthenticationInfo")
_TURNED_AWAY = ("AuthenticationFailed", "AuthorizationFailure", "")
"""What may be said of a SAS token that is over."""
_WRONG_HOST = "check lake_root, azure_account_name and azure_endpoint_url"
_WRONG_PORT = "check host and port of azure_endpoint_url, that the server runs, and the network"
_CODE = "x-ms-error-code"
_LONGEST_REASON = 300
_SAYS_NOTHING = "Operation returned an invalid status"
"""Begins what the SDK says where the server said nothing."""


def meaning(error: Exception) -> Meaning:
    """What a failed request tells about its effect. Only errors of the SDK have a meaning; others are raised again."""
    from azure.core.exceptions import AzureError, HttpResponseError

    if (known := broken(error)) is not None:
        if known.untrusted or known.stranger:
            return Meaning.FATAL
        return Meaning.UNKNOWN if known.sent else Meaning.BUSY
    if _is_of_identity(error):
        return Meaning.BUSY if _status(error) == 429 or _status(error) >= 500 or not _answered(error) else Meaning.FATAL
    if isinstance(error, HttpResponseError):
        code, status = code_of(error), _status(error)
        if code in _MEANINGS:
            return _MEANINGS[code]
        if code and explained(code) is not None:
            return Meaning.FATAL
        return {409: Meaning.CONFLICT, 412: Meaning.REFUSED, 429: Meaning.BUSY, 501: Meaning.FATAL}.get(
            status, Meaning.UNKNOWN if status >= 500 or status == 408 else Meaning.FATAL
        )
    if isinstance(error, AzureError):
        return Meaning.FATAL
    raise error


def code_of(error: Any) -> str:
    """The code of an answer, which a HEAD has among its headers alone."""
    code = _headers(error).get(_CODE) or getattr(error, "error_code", None) or ""
    return str(getattr(code, "value", code))


def is_absent(error: Exception) -> bool:
    """Whether a request failed because there is no such object; a container that is missing is another matter."""
    return code_of(error) in _ABSENT


def is_past_end(error: Exception) -> bool:
    """Whether a ranged read failed because the range begins at the object's end or later."""
    return code_of(error) == "InvalidRange" or _status(error) == 416


def trouble(error: Exception) -> RetryReason:
    """What a request that is sent again waits for."""
    if (known := broken(error)) is not None:
        return RetryReason.NO_SUCH_HOST if known.no_such_host else RetryReason.SILENT
    return RetryReason.CONFLICT if meaning(error) is Meaning.CONFLICT else RetryReason.BUSY


def retry_after(error: Exception) -> float:
    """The seconds that the server asks to wait; 0 where it does not ask, or names a time of day."""
    headers = _headers(error)
    for name, unit in (("x-ms-retry-after-ms", 1000.0), ("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        value = headers.get(name, "").strip()
        if value.isdecimal():
            return int(value) / unit
    return 0.0


AZURE_ERRORS = DriverErrors(meaning, trouble, retry_after)


def translate(
    error: Exception,
    secrets: tuple[str, ...],
    *,
    sas_from: str = "azure_sas_token",
    has_expired: bool = False,
    **context: object,
) -> SingerlakeError:
    """This package's error for one of the SDK's, with the server's own words but without secrets. What is not the
    SDK's is raised as it is. ``sas_from`` names what gave the SAS token; ``has_expired``: by this machine's clock it is
    over."""
    from azure.core.exceptions import AzureError, HttpResponseError

    if not isinstance(error, AzureError):
        raise error
    if (known := broken(error)) is not None:
        if known.stranger:
            return _not_azure(**context)
        context = {**context, "error": known.kind, **({"reason": known.reason} if known.reason else {})}
        return without_answer(error, "storage", wrong_host=_WRONG_HOST, wrong_port=_WRONG_PORT, **context)
    reason = _reason(error, secrets)
    said = {"reason": reason} if reason else {}
    if _is_of_identity(error):
        return _of_identity(error, **context, **said, **waited(error))
    if not isinstance(error, HttpResponseError):
        hint = "check azure_account_key, lake_root and the azure_ ones"
        return SettingError("no request can be made with these settings", hint=hint, **context, **said)
    code, status = code_of(error), _status(error)
    if not code and status < 500 and status not in (403, 408, 429):
        return _not_azure(**context, code=f"HTTP {status}")
    context |= {"code": without_secrets(code, secrets) or f"HTTP {status}", **said}
    if (found := _explained(error, sas_from, has_expired=has_expired)) is not None:
        kind, message, hint = found
        return kind(message, hint=hint, **context)
    if meaning(error) in (Meaning.FATAL, Meaning.REFUSED):
        return SettingError("storage refused a request", hint="look at code and reason", **context)
    return StorageUnavailableError("storage could not answer", hint="run again later", **context, **waited(error))


def _of_identity(error: Any, **context: object) -> SingerlakeError:
    """What gets tokens has errors of its own: https://learn.microsoft.com/python/api/azure-identity/azure.identity"""
    if meaning(error) is Meaning.BUSY:
        return StorageUnavailableError("Microsoft Entra gave no token", hint="run again later", **context)
    nowhere = str(error).startswith("DefaultAzureCredential failed")
    if nowhere or type(error).__name__ == "CredentialUnavailableError":
        return AccessDeniedError("there are no credentials for Azure", hint=CREDENTIALS, **context)
    return AccessDeniedError(
        "Microsoft Entra gives no token for these credentials",
        hint="check azure_tenant_id, azure_client_id and azure_client_secret, or sign in again",
        **context,
    )


def _not_azure(**context: object) -> SettingError:
    hint = "check azure_endpoint_url and lake_root, and proxies on the way"
    return SettingError("the server that answers is not Azure Blob Storage", hint=hint, **context)


def _explained(error: Any, sas_from: str, *, has_expired: bool) -> Explained | None:
    code, status = code_of(error), _status(error)
    # The answer to a HEAD has no detail, and a server that is not Azure's may have none at all.
    if has_expired and status in (401, 403) and code in _TURNED_AWAY:
        return expired(sas_from)
    detail = str((getattr(error, "additional_info", None) or {}).get("authenticationerrordetail") or error)
    if code in _NOT_KNOWN and (found := of_time(detail, sas_from)) is not None:
        return found
    return explained(code) if code else by_status(status)


def _is_of_identity(error: Exception) -> bool:
    """Whether it came of getting a token: nothing was sent to storage then."""
    from azure.core.exceptions import HttpResponseError, ServiceRequestError, ServiceResponseError

    if isinstance(error, (ServiceRequestError, ServiceResponseError)):
        return broken(error) is None
    signing = type(error).__name__ == "AzureSigningError"
    return isinstance(error, HttpResponseError) and not signing and not is_of_storage(error.response)


def _answered(error: Exception) -> bool:
    """Whether what gives tokens said no, rather than nothing."""
    from azure.core.exceptions import ServiceRequestError, ServiceResponseError

    return not isinstance(error, (ServiceRequestError, ServiceResponseError))


def _reason(error: Any, secrets: tuple[str, ...]) -> str:
    """The first line of what the server says: the others hold ids and what it signed."""
    lines = str(getattr(error, "message", "") or "").strip().splitlines()
    if not lines or lines[0].startswith(_SAYS_NOTHING):
        return ""
    return without_secrets(lines[0], secrets)[:_LONGEST_REASON]


def _headers(error: Any) -> Mapping[str, str]:
    response = getattr(error, "response", None)
    headers: Mapping[str, str] = response.headers if response is not None else {}
    return headers


def _status(error: Any) -> int:
    return int(getattr(error, "status_code", None) or 0)

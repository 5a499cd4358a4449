"""What an answer of Azure means for a request that may be tried again, and which error it becomes. Codes decide,
statuses only where there is none: https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes and
https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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

Explained = tuple[type[SingerlakeError], str, str]

CREDENTIALS = (
    "set azure_account_key, azure_sas_token, azure_connection_string or azure_client_secret, "
    "or AZURE_STORAGE_* in the environment, or sign in with 'az login'; "
    "if azure_client_id is set, check that this machine has that identity"
)
CLOCK = "set the clock of this machine"
_ROLES = (
    "assign the role 'Storage Blob Data Contributor', to readers 'Storage Blob Data Reader', "
    "or give azure_sas_token the permissions it lacks: racwdl, to readers rl"
)
_KEY = "check azure_account_key and azure_account_name"
_NETWORK = "allow this machine in the networking rules of the storage account"
_CONTAINER = "check lake_root and azure_account_name, and create the container"
_ENCRYPTION = "check the key vault and that the storage account may use its key"
_HELD = "remove the hold or the policy from the container, or wait until it ends; a later run removes what was left"
_LEASE = "break the lease, or wait until it ends"

_DENIED = (AccessDeniedError, "storage denied access", _ROLES)
_LEASED = (AccessDeniedError, "a lease protects the object or the container", _LEASE)
_IMMUTABLE = (AccessDeniedError, "a legal hold or an immutability policy protects the object", _HELD)
_UNAUTHENTICATED = (AccessDeniedError, "storage does not accept the credentials", CREDENTIALS)
_NO_CONTAINER = (NoSuchBucketError, "the container does not exist", _CONTAINER)
_NO_KEY = (AccessDeniedError, "storage cannot use the encryption key", _ENCRYPTION)
_TOO_LONG = (NameTooLongError, "a name is too long for Azure", "shorten the tap id, the stream name or lake_root")
_UNKNOWN_REQUEST = (ConditionNotSupportedError, "storage does not know this request", "use a store without conditions")
_FULL = (StorageFullError, "the storage account's quota is used up", "raise it or free space")
_LOST_BLOCKS = (StorageUnavailableError, "storage lost the blocks of an upload", "run again")
_NO_FILE = (
    SettingError,
    "another kind of object has this name",
    "choose another lake_root, or remove what is there: a directory, or a page or append blob",
)

EXPLAINED: dict[str, Explained] = {
    "AuthorizationFailure": (
        AccessDeniedError,
        "storage denied access",
        f"check azure_account_key or azure_sas_token; {_ROLES}; {_NETWORK}",
    ),
    "AuthorizationPermissionMismatch": _DENIED,
    "InsufficientAccountPermissions": _DENIED,
    "UnauthorizedBlobOverwrite": _DENIED,
    "AuthorizationServiceMismatch": (AccessDeniedError, "the SAS token is not for blobs", "give azure_sas_token ss=b"),
    "AuthorizationResourceTypeMismatch": (
        AccessDeniedError,
        "the SAS token is not for containers and objects",
        "give azure_sas_token srt=co, or make it for the container",
    ),
    "AuthorizationProtocolMismatch": (AccessDeniedError, "storage wants https", "write https in azure_endpoint_url"),
    "AccountRequiresHttps": (AccessDeniedError, "storage wants https", "write https in azure_endpoint_url"),
    "AuthorizationSourceIPMismatch": (AccessDeniedError, "storage denied access to this address", _NETWORK),
    "KeyBasedAuthenticationNotPermitted": (
        AccessDeniedError,
        "the storage account takes no account keys",
        "use azure_client_secret or a managed identity in place of azure_account_key",
    ),
    "PublicAccessNotPermitted": _UNAUTHENTICATED,
    "NoAuthenticationInformation": _UNAUTHENTICATED,
    "AuthenticationFailed": (
        AccessDeniedError,
        "storage does not accept the credentials",
        f"{_KEY}, or azure_sas_token; compare the clock of this machine",
    ),
    "InvalidAuthenticationInfo": (
        AccessDeniedError,
        "storage does not accept the token",
        "check azure_tenant_id: it is the tenant of the storage account; compare the clock of this machine",
    ),
    "ContainerNotFound": _NO_CONTAINER,
    "FilesystemNotFound": _NO_CONTAINER,
    "ResourceNotFound": (NoSuchBucketError, "the container does not exist, or is not shown", _CONTAINER),
    "ContainerBeingDeleted": (
        NoSuchBucketError,
        "the container is being deleted",
        "choose another one, or create it again in a few minutes",
    ),
    "ContainerDisabled": (AccessDeniedError, "the container is disabled", "ask the owner of the storage account"),
    "AccountIsDisabled": (
        AccessDeniedError,
        "the storage account is disabled",
        "check the state and the payment of its subscription",
    ),
    "BlobNotFound": (MissingFileError, "no such object", ""),
    "PathNotFound": (MissingFileError, "no such object", ""),
    "BlobImmutableDueToPolicy": _IMMUTABLE,
    "BlobImmutableDueToLegalHold": _IMMUTABLE,
    "ContainerImmutableDueToPolicy": _IMMUTABLE,
    "LeaseIdMissing": _LEASED,
    "LeaseIdMismatchWithBlobOperation": _LEASED,
    "LeaseIdMismatchWithContainerOperation": _LEASED,
    "LeaseNotPresentWithBlobOperation": _LEASED,
    "LeaseLost": _LEASED,
    "SnapshotsPresent": (
        AccessDeniedError,
        "the object has snapshots, and cannot be removed without them",
        "delete the snapshots, or keep versions or soft-deleted objects in their place",
    ),
    "BlobArchived": (
        AccessDeniedError,
        "the object is in the archive tier",
        "rehydrate it, and keep lakes out of rules that archive",
    ),
    "BlobBeingRehydrated": (
        StorageUnavailableError,
        "the object is on its way out of the archive tier",
        "run again once it is there",
    ),
    "KeyVaultEncryptionKeyNotFound": _NO_KEY,
    "KeyVaultAccessTokenCannotBeAcquired": _NO_KEY,
    "KeyVaultVaultNotFound": _NO_KEY,
    "EncryptionScopeNotFound": _NO_KEY,
    "InvalidResourceName": (SettingError, "that is not a name of a container or an object", "check lake_root"),
    "OutOfRangeInput": _TOO_LONG,
    "BlobNameTooLong": _TOO_LONG,
    "ConditionHeadersNotSupported": _UNKNOWN_REQUEST,
    "FeatureNotSupported": _UNKNOWN_REQUEST,
    "APINotImplemented": _UNKNOWN_REQUEST,
    "NotImplemented": _UNKNOWN_REQUEST,
    "InvalidBlobType": _NO_FILE,
    "ResourceTypeMismatch": _NO_FILE,
    "PathConflict": _NO_FILE,
    "PathAlreadyExists": _NO_FILE,
    "DirectoryNotEmpty": _NO_FILE,
    "DirectoryIsNotEmpty": _NO_FILE,
    "InvalidBlockList": _LOST_BLOCKS,
    "InvalidBlobOrBlock": _LOST_BLOCKS,
    "BlockListTooLong": (SettingError, "an object has too many blocks", "lower the size of the files"),
    "RequestBodyTooLarge": (SettingError, "an object is too large for one request", "lower the size of the files"),
}


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
    """This package's error for one of the SDK's, without secrets. What is not the SDK's is raised as it is.
    ``sas_from`` names what gave the SAS token; ``has_expired``: by this machine's clock it is over."""
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


def expired(sas_from: str) -> Explained:
    """What to say of a SAS token that is over. ``sas_from`` names what gave it."""
    return AccessDeniedError, "the SAS token has expired", _renew(sas_from)


def of_time(detail: str, sas_from: str) -> Explained | None:
    """What the detail of ``AuthenticationFailed`` says of times. ``sas_from`` names what gave the SAS token."""
    if "not valid in the specified time frame" in detail:
        return AccessDeniedError, "the SAS token has expired or is not valid yet", _renew(sas_from)
    if "token is expired" in detail:
        return (
            AccessDeniedError,
            "the token of Microsoft Entra has expired",
            f"run again; if this keeps happening, {CLOCK}",
        )
    if "too old" in detail or "date header" in detail.lower():
        return AccessDeniedError, "this machine's clock is too far from that of storage", CLOCK
    return None


def explained(code: str) -> Explained | None:
    """What a code says to its reader; None: nothing is known of it."""
    if code in EXPLAINED:
        return EXPLAINED[code]
    if "Quota" in code or "LimitExceeded" in code:
        return _FULL
    return _DENIED if code.startswith("Authorization") else None


def _renew(sas_from: str) -> str:
    return f"renew {sas_from}, then run again; if it is new, {CLOCK}"


def by_status(status: int) -> Explained | None:
    """The same of an answer without a code: two statuses mean one thing alone."""
    return {403: _DENIED, 501: _UNKNOWN_REQUEST, 507: _FULL}.get(status)

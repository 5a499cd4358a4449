"""What the error codes of Azure mean for the person who reads the error.

The codes are those of https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes and
https://learn.microsoft.com/rest/api/storageservices/blob-service-error-codes.
"""

from __future__ import annotations

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

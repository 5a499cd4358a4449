"""What has to be known to reach a container of Azure Blob Storage; and connection strings, account keys and SAS tokens
(https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string)."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl, unquote

from singerlake.errors import SettingError
from singerlake.storage.checks import check_endpoint, check_settings
from singerlake.storage.patience import PATIENCE_SECONDS

_EMULATOR = "http://127.0.0.1:10000/devstoreaccount1"
# Every emulator has this key: https://learn.microsoft.com/azure/storage/common/storage-connect-azurite
_EMULATOR_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_SUFFIX = "core.windows.net"


@dataclass(frozen=True, slots=True)
class AzureSettings:
    """How to reach a container of Azure Blob Storage.

    One of ``account_key``, ``sas_token``, ``connection_string`` and ``client_secret`` is taken; without any, the
    variables of the Azure CLI (``AZURE_STORAGE_*``), and then azure-identity's own chain: environment, workload
    identity, managed identity, Azure CLI. ``client_id`` alone names a user-assigned managed identity.
    ``endpoint_url`` is that of the account, its name in the path where the server wants it there, as Azurite does:
    ``http://127.0.0.1:10000/devstoreaccount1``. Raises ``SettingError`` where settings contradict each other.
    """

    account_name: str | None = None
    account_key: str | None = field(default=None, repr=False)
    sas_token: str | None = field(default=None, repr=False)
    connection_string: str | None = field(default=None, repr=False)
    tenant_id: str | None = None
    client_id: str | None = None
    client_secret: str | None = field(default=None, repr=False)
    endpoint_url: str | None = None
    patience_seconds: int = PATIENCE_SECONDS

    def __post_init__(self) -> None:
        check_settings(self, "azure_{}".format)
        given = [name for name in ("account_key", "sas_token", "connection_string", "client_secret") if self._has(name)]
        if len(given) > 1:
            raise SettingError(f"azure_{given[0]} and azure_{given[1]} are both set", hint="keep one of them")
        if self.client_secret and not (self.tenant_id and self.client_id):
            raise SettingError(
                "azure_client_secret is set without azure_tenant_id or azure_client_id", hint="set all three"
            )
        if self.tenant_id and not self.client_secret:
            raise SettingError(
                "azure_tenant_id is set without azure_client_secret",
                hint="set azure_client_id and azure_client_secret too, or leave it out",
            )
        if self.client_id and not self.client_secret and given:
            raise SettingError(
                f"azure_client_id and azure_{given[0]} are both set",
                hint="keep one of them: azure_client_id alone names a managed identity",
            )
        if self.connection_string and self.endpoint_url:
            raise SettingError(
                "azure_connection_string and azure_endpoint_url are both set",
                hint="keep one of them: a connection string names its endpoint",
            )
        if self.connection_string:
            parsed(self.connection_string, "azure_connection_string")
        if self.account_key:
            check_key(self.account_key, "azure_account_key")
        bare_sas(self.sas_token, "azure_sas_token")
        if self.endpoint_url:
            check_endpoint("azure_endpoint_url", self.endpoint_url, credentials="azure_account_key or azure_sas_token")

    def secrets(self) -> tuple[str, ...]:
        """The values that no message may show."""
        values = [self.account_key, self.sas_token, self.connection_string, self.client_secret]
        if self.connection_string:
            held = parsed(self.connection_string, "azure_connection_string")
            values += [held.key, held.sas, *signatures(held.sas or "")]
        values += signatures((self.sas_token or "").lstrip("?"))
        return tuple(value for value in values if value)

    def _has(self, name: str) -> bool:
        return getattr(self, name) is not None


@dataclass(frozen=True, slots=True)
class ConnectionString:
    """What one holds; None: it does not say."""

    account: str | None
    key: str | None = field(repr=False)
    sas: str | None = field(repr=False)
    endpoint: str | None


def parsed(text: str, name: str) -> ConnectionString:
    """What the connection string of a setting or variable ``name`` holds. Raises ``SettingError`` without its text."""
    parts = dict[str, str]()
    for part in text.strip().rstrip(";").split(";"):
        word, equals, value = part.partition("=")
        if not equals or not word.strip():
            raise _malformed(name, "a part of it is not name=value")
        parts[word.strip().lower()] = value.strip()
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        return ConnectionString("devstoreaccount1", _EMULATOR_KEY, None, _EMULATOR)
    account, key, sas = (parts.get(word) or None for word in ("accountname", "accountkey", "sharedaccesssignature"))
    endpoint = parts.get("blobendpoint") or None
    if endpoint is None and account:
        protocol = parts.get("defaultendpointsprotocol") or "https"
        endpoint = f"{protocol}://{account}.blob.{parts.get('endpointsuffix') or _SUFFIX}"
    if endpoint is None:
        raise _malformed(name, "it has neither AccountName nor BlobEndpoint")
    if not endpoint.startswith(("http://", "https://")):
        raise _malformed(name, "its BlobEndpoint is not a URL")
    if key is None and sas is None:
        raise _malformed(name, "it has neither AccountKey nor SharedAccessSignature")
    if key is not None:
        if account is None:
            raise _malformed(name, "it has an AccountKey and no AccountName")
        check_key(key, f"the AccountKey of {name}")
        # Azure lets a key do whatever a SAS token does.
        sas = None
    return ConnectionString(account, key, bare_sas(sas, f"the SharedAccessSignature of {name}"), endpoint.rstrip("/"))


def check_key(key: str, name: str) -> None:
    """Raise ``SettingError`` where a text is not an account key, without showing it."""
    try:
        decoded = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if not decoded:
        raise SettingError(
            f"{name} is not an account key: it is not base64", hint="copy the whole key, with the '=' at its end"
        )


def bare_sas(token: str | None, name: str) -> str | None:
    """A SAS token without the question mark that portals put before it. Raises ``SettingError`` where it is none."""
    if token is None:
        return None
    token = token.lstrip("?")
    if "://" in token.partition("=")[0] or not signatures(token):
        raise SettingError(
            f"{name} is not a SAS token", hint="write what follows the '?' of a SAS URL: sv=...&sig=..., nothing else"
        )
    return token


def signatures(token: str) -> tuple[str, ...]:
    """What signs a SAS token, as it is written in it and as it is."""
    words = [part.partition("=") for part in token.split("&")]
    written = [value for word, _, value in words if word.lower() == "sig" and value]
    plain = [value for word, value in parse_qsl(token) if word.lower() == "sig"]
    return tuple(dict.fromkeys([*written, *map(unquote, written), *plain]))


def expiry(token: str) -> datetime | None:
    """When a SAS token is over, as it says; None where it does not, or not in a way that is known
    (https://learn.microsoft.com/rest/api/storageservices/formatting-datetime-values)."""
    said = next((value for word, value in parse_qsl(token) if word.lower() == "se"), "")
    try:
        until = datetime.fromisoformat(said)
    except ValueError:
        return None
    return until if until.tzinfo else until.replace(tzinfo=UTC)


def _malformed(name: str, why: str) -> SettingError:
    return SettingError(
        f"{name} is not a connection string: {why}",
        hint="copy it whole from 'Access keys' of the storage account: AccountName=...;AccountKey=...",
    )

"""Where a container is, and what opens it: from the settings, else from the variables of the Azure CLI.

The variables are those of https://learn.microsoft.com/azure/storage/blobs/authorize-data-operations-cli, and the names
that Microsoft's other tools have for them. What belongs to another account than the lake's is not taken.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from singerlake.errors import SettingError
from singerlake.interpreter.process import made_to_last
from singerlake.storage.drivers.azure.settings import (
    AzureSettings,
    ConnectionString,
    bare_sas,
    check_key,
    expiry,
    parsed,
    signatures,
)
from singerlake.storage.drivers.azure.transport import transport

_CONNECTION_STRING = "AZURE_STORAGE_CONNECTION_STRING"
_ACCOUNTS = ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME")
_KEYS = ("AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY")
_SAS = ("AZURE_STORAGE_SAS_TOKEN",)

SCOPE = "https://storage.azure.com/.default"
"""What tokens are for, in every cloud: https://learn.microsoft.com/azure/storage/blobs/authorize-access-azure-active-directory"""
_WHOLE = 5000 << 20
"""The most that one Put Blob takes: https://learn.microsoft.com/azure/storage/blobs/scalability-targets"""


@dataclass(frozen=True, slots=True)
class Access:
    """``endpoint`` is that of the account's blobs, without a slash behind it. Without ``key`` and ``sas`` a token of
    Microsoft Entra is used, as ``settings`` say. ``sas_from`` is the setting or the variable that gave ``sas``."""

    endpoint: str
    account: str
    key: str | None = field(repr=False)
    sas: str | None = field(repr=False)
    settings: AzureSettings
    sas_from: str = "azure_sas_token"

    def has_expired(self, now: datetime) -> bool:
        """Whether the SAS token was over by then. False where it does not say, as one of a stored access policy."""
        until = expiry(self.sas or "")
        return until is not None and until <= now

    def secrets(self) -> tuple[str, ...]:
        found = [*self.settings.secrets()]
        if self.key:
            found.append(self.key)
        if self.sas:
            found += [self.sas, *signatures(self.sas)]
        return tuple(sorted(set(found), key=len, reverse=True))


def find_access(settings: AzureSettings, account_host: str | None, environment: Mapping[str, str]) -> Access:
    """How to reach the account that is named. Raises ``SettingError`` where none is, or by a contradiction."""
    given = parsed(settings.connection_string, "azure_connection_string") if settings.connection_string else None
    hosted = account_host.partition(".")[0] if account_host else None
    account = _agreed(
        ("lake_root", hosted),
        ("azure_account_name", settings.account_name),
        ("azure_connection_string", given.account if given else None),
    )
    key, sas = settings.account_key, bare_sas(settings.sas_token, "azure_sas_token")
    sas_from = "azure_connection_string" if given else "azure_sas_token"
    if given is None and not (key or sas or settings.client_id):
        given, sas_from = _given_by(environment, account), _CONNECTION_STRING
        account = account or (given.account if given else None)
        if given is None:
            account, key, sas = _keys_of(environment, account)
            sas_from = _SAS[0]
    account = account or _first(environment, _ACCOUNTS)[1]
    if given is not None:
        key, sas = given.key, given.sas
    endpoint = settings.endpoint_url or (given.endpoint if given else None) or _endpoint_of(account_host, account)
    endpoint = endpoint.rstrip("/")
    if not (key or sas) and not endpoint.startswith("https://"):
        raise SettingError(
            "azure_endpoint_url is not https, and there is neither an account key nor a SAS token",
            hint="set azure_account_key or azure_sas_token: tokens of Microsoft Entra are sent over https alone",
        )
    return Access(endpoint, account or _account_of(endpoint), key, sas, settings, sas_from)


def _agreed(*named: tuple[str, str | None]) -> str | None:
    """The one account that several places name."""
    found = [(where, account) for where, account in named if account]
    for where, account in found[1:]:
        if account != found[0][1]:
            raise SettingError(
                f"{found[0][0]} and {where} name different storage accounts",
                hint="correct one of them, or leave it out",
                accounts=[found[0][1], account],
            )
    return found[0][1] if found else None


def _given_by(environment: Mapping[str, str], account: str | None) -> ConnectionString | None:
    text = environment.get(_CONNECTION_STRING)
    if not text:
        return None
    found = parsed(text, _CONNECTION_STRING)
    return found if account in (None, found.account or _account_of(found.endpoint or "")) else None


def _keys_of(environment: Mapping[str, str], account: str | None) -> tuple[str | None, str | None, str | None]:
    """Account, key and SAS token of the environment, which names the account that they belong to, or none."""
    _, named = _first(environment, _ACCOUNTS)
    if account and named and named != account:
        return account, None, None
    variable, key = _first(environment, _KEYS)
    if key:
        check_key(key, variable)
        return account or named, key, None
    variable, sas = _first(environment, _SAS)
    return account or named, None, bare_sas(sas, variable)


def _first(environment: Mapping[str, str], names: tuple[str, ...]) -> tuple[str, str | None]:
    return next(
        ((name, value.strip()) for name in names if (value := environment.get(name)) and value.strip()), ("", None)
    )


def _endpoint_of(account_host: str | None, account: str | None) -> str:
    if account_host:
        # https://learn.microsoft.com/azure/storage/blobs/data-lake-storage-introduction-abfs-uri
        return f"https://{account_host.replace('.dfs.', '.blob.', 1)}"
    if not account:
        raise SettingError(
            "the storage account is not known",
            hint="set azure_account_name, or write abfss://container@account.dfs.core.windows.net/prefix",
        )
    return f"https://{account}.blob.core.windows.net"


def _account_of(endpoint: str) -> str:
    """Servers that are not Azure's have the account in the path."""
    parts = urlsplit(endpoint)
    return parts.path.strip("/") or (parts.hostname or "").partition(".")[0]


@dataclass(frozen=True, slots=True)
class Client:
    """``container`` is the SDK's, without retries. ``token`` gives what a server may read a source with, if needed."""

    container: Any
    token: Callable[[], str] | None


@made_to_last()
def connect(access: Access, container: str) -> Client:
    """A client for one container; nothing is sent yet. Raises ``SettingError``."""
    from azure.core.credentials import AzureNamedKeyCredential, AzureSasCredential
    from azure.storage.blob import ContainerClient

    _keep_tokens_out_of_logs()
    credential: Any
    token = None
    if access.key:
        credential = AzureNamedKeyCredential(access.account, access.key)
    elif access.sas:
        credential = AzureSasCredential(access.sas)
    else:
        identity = credential = _identity(access)
        token = lambda: str(identity.get_token(SCOPE).token)  # noqa: E731
    try:
        client = ContainerClient(
            access.endpoint,
            container,
            credential=credential,
            transport=transport(access.secrets()),
            retry_total=0,
            retry_connect=0,
            retry_read=0,
            retry_status=0,
            permit_redirects=False,
            max_single_put_size=_WHOLE,
            max_single_get_size=_WHOLE,
            max_chunk_get_size=_WHOLE,
        )
    except ValueError as error:
        raise SettingError(
            "no Azure client can be made with these settings",
            hint="check lake_root and the azure_ ones",
            reason=str(error),
        ) from None
    return Client(client, token)


def _identity(access: Access) -> Any:
    """What gets tokens of Microsoft Entra. A client id alone is that of a managed or a workload identity."""
    from azure.identity import ClientSecretCredential, DefaultAzureCredential, ManagedIdentityCredential

    settings = access.settings
    if settings.client_secret and settings.tenant_id and settings.client_id:
        return ClientSecretCredential(settings.tenant_id, settings.client_id, settings.client_secret, retry_total=0)
    if settings.client_id:
        return ManagedIdentityCredential(client_id=settings.client_id)
    return DefaultAzureCredential()


def _keep_tokens_out_of_logs() -> None:
    """Hold the loggers of what sends requests unless their own levels are set. At INFO the SDK tells every request, and
    at DEBUG urllib3 shows whole URLs, with the SAS token. A plugin's DEBUG is set by people who then pass its log on.
    """
    for name, level in (("azure", logging.WARNING), ("msal", logging.INFO), ("urllib3", logging.INFO)):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(level)

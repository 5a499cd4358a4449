"""How a container is reached: credentials and the client. The SDK is imported when the first client is made."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from singerlake.errors import SettingError
from singerlake.storage.azure.settings import AzureSettings

_CONNECT_SECONDS = 10
_READ_SECONDS = 60
_CONNECTIONS = 64


def account_url(
    settings: AzureSettings, account_host: str | None = None, environment: Mapping[str, str] = os.environ
) -> str | None:
    """The account's Blob endpoint, as far as settings, root and environment name it; None: a connection string does.
    Raises ``SettingError`` where nothing names an account."""
    if settings.connection_string:
        return None
    if settings.endpoint_url:
        return settings.endpoint_url.rstrip("/")
    if account_host:
        return f"https://{account_host.replace('.dfs.', '.blob.', 1)}"
    name = settings.account_name
    if not name and _connection_string(settings, environment):
        return None
    name = name or environment.get("AZURE_STORAGE_ACCOUNT_NAME") or environment.get("AZURE_STORAGE_ACCOUNT")
    if not name:
        raise SettingError(
            "no Azure storage account is named",
            hint="set azure_account_name or azure_connection_string, or write lake_root as "
            "abfss://container@account.dfs.core.windows.net/prefix",
        )
    return f"https://{name}.blob.core.windows.net"


def connect(container: str, settings: AzureSettings, account_host: str | None) -> Any:
    """The client of a container, which repeats nothing by itself; nothing is sent yet. Raises ``SettingError``."""
    from azure.core.pipeline.transport import RequestsTransport
    from azure.storage.blob import ContainerClient
    from requests import Session
    from requests.adapters import HTTPAdapter

    _keep_signatures_out_of_logs()
    session = Session()
    # As many connections as a probe and the threads of uploads have requests under way.
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(max_retries=0, pool_maxsize=_CONNECTIONS))
    options: dict[str, Any] = {
        "transport": RequestsTransport(session=session, session_owner=False),
        "retry_total": 0,
        "connection_timeout": _CONNECT_SECONDS,
        "read_timeout": _READ_SECONDS,
        "max_single_put_size": 64 << 20,
        "max_block_size": 16 << 20,
        "max_single_get_size": 64 << 20,
        "max_chunk_get_size": 64 << 20,
    }
    url = account_url(settings, account_host)
    try:
        if url is None:
            text = _connection_string(settings, os.environ) or ""
            return ContainerClient.from_connection_string(text, container, **options)
        return ContainerClient(url, container, credential=_credential(settings, os.environ, url), **options)
    except ValueError:
        # Not chained: its text may show a part of what was given.
        raise SettingError(
            "no Azure client can be made with these settings",
            hint="check azure_connection_string, azure_account_key and azure_endpoint_url",
        ) from None


def _connection_string(settings: AzureSettings, environment: Mapping[str, str]) -> str | None:
    if settings.connection_string:
        return settings.connection_string
    if settings.account_key or settings.sas_token or settings.client_secret:
        return None
    return environment.get("AZURE_STORAGE_CONNECTION_STRING")


def _credential(settings: AzureSettings, environment: Mapping[str, str], url: str) -> Any:
    key = settings.account_key
    sas = settings.sas_token
    if not (key or sas or settings.client_id):
        key = environment.get("AZURE_STORAGE_KEY") or environment.get("AZURE_STORAGE_ACCOUNT_KEY")
        sas = None if key else environment.get("AZURE_STORAGE_SAS_TOKEN")
    if key:
        return {"account_name": settings.account_name or _account_of(url), "account_key": key}
    if sas:
        from azure.core.credentials import AzureSasCredential

        return AzureSasCredential(sas.removeprefix("?"))
    from azure import identity

    if settings.client_secret:
        return identity.ClientSecretCredential(
            settings.tenant_id or "", settings.client_id or "", settings.client_secret
        )
    return identity.DefaultAzureCredential(managed_identity_client_id=settings.client_id)


def _account_of(url: str) -> str:
    """The account that an endpoint names: in its path, as Azurite has it, or as the first part of its host."""
    host, _, path = url.partition("://")[2].partition("/")
    return path.partition("/")[0] or host.partition(".")[0]


def _keep_signatures_out_of_logs() -> None:
    """Hold the logs of the SDK and of what it sends by above the level at which they show URLs, and in them signatures,
    unless their own level is set."""
    for name, level in (("azure", logging.WARNING), ("urllib3", logging.INFO)):
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(level)

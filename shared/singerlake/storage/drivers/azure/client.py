"""How Azure is reached: credentials and clients. The SDK is imported when the first client is made, not before."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from singerlake.errors import SettingError
from singerlake.interpreter.collector import made_to_last
from singerlake.storage.drivers.azure.access import Access
from singerlake.storage.drivers.azure.transport import transport

SCOPE = "https://storage.azure.com/.default"
"""What tokens are for, in every cloud: https://learn.microsoft.com/azure/storage/blobs/authorize-access-azure-active-directory"""
_WHOLE = 5000 << 20
"""The most that one Put Blob takes: https://learn.microsoft.com/azure/storage/blobs/scalability-targets"""


@dataclass(frozen=True, slots=True)
class Client:
    """``container`` is the SDK's, whose own retries are off. ``token`` gives what a server may read a source with where
    there is neither a key nor a SAS token; None: there is one."""

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
    """What gets tokens of Microsoft Entra. A client id alone is that of a managed identity, or of a workload identity
    where Kubernetes says so."""
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

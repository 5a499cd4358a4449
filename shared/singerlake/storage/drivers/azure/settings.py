"""What has to be known to reach a container of Azure Blob Storage."""

from __future__ import annotations

from dataclasses import dataclass, field

from singerlake.errors import SettingError
from singerlake.storage.checks import check_endpoint, check_texts
from singerlake.storage.drivers.azure.connection_string import bare_sas, check_key, parsed, signatures
from singerlake.storage.patience import PATIENCE_SECONDS

_SETTING_NAMES = {
    "account_name": "azure_account_name",
    "account_key": "azure_account_key",
    "sas_token": "azure_sas_token",
    "connection_string": "azure_connection_string",
    "tenant_id": "azure_tenant_id",
    "client_id": "azure_client_id",
    "client_secret": "azure_client_secret",
    "endpoint_url": "azure_endpoint_url",
}


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
        check_texts(self, _SETTING_NAMES)
        given = [name for name in ("account_key", "sas_token", "connection_string", "client_secret") if self._has(name)]
        if len(given) > 1:
            first, second = (_SETTING_NAMES[name] for name in given[:2])
            raise SettingError(f"{first} and {second} are both set", hint="keep one of them")
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
                f"azure_client_id and {_SETTING_NAMES[given[0]]} are both set",
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
        if self.patience_seconds < 0:
            raise SettingError("patience_seconds is below 0", hint="set it to 0 or more")
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

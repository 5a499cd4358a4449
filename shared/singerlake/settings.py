"""Settings that every part of the package names alike: their JSON Schema, and how they become typed values.

Flat on purpose: Meltano gives nested settings to a plugin's environment only as JSON. Secrets carry the marks that
singer-sdk, and so ``--about`` and Meltano, know them by.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from singerlake.errors import SettingError
from singerlake.humanize import shown
from singerlake.storage.patience import PATIENCE_SECONDS

if TYPE_CHECKING:
    from singerlake.storage.settings import StorageSettings


def setting(kind: str, title: str, description: str, *, secret: bool = False, **keywords: Any) -> dict[str, Any]:
    """One optional setting as a JSON Schema property; ``keywords`` are further JSON Schema."""
    described: dict[str, Any] = {"type": [kind, "null"], "title": title, "description": description, **keywords}
    if secret:
        described |= {"secret": True, "writeOnly": True}
    return described


text_setting, number_setting, truth_setting = (partial(setting, kind) for kind in ("string", "integer", "boolean"))

LAKE_ROOT: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "title": "Lake root",
    "description": "Where the lake is: a path, `file:///folder`, `s3://bucket/prefix`, `gs://bucket/prefix`, "
    "`az://container/prefix` or "
    "`abfss://container@account.dfs.core.windows.net/prefix`.",
}
"""Required wherever it is used."""
TABLES_FILE = "projections.yml"
"""What declares the tables of a lake, and may name it."""

S3_SETTINGS: dict[str, dict[str, Any]] = {
    "aws_access_key_id": text_setting(
        "AWS access key id",
        "Leave the keys unset to use boto3's own chain: environment, profile, container or instance role.",
        secret=True,
    ),
    "aws_secret_access_key": text_setting("AWS secret access key", "The secret of the key id.", secret=True),
    "aws_session_token": text_setting("AWS session token", "Only for temporary credentials.", secret=True),
    "aws_profile": text_setting("AWS profile", "A profile of the AWS configuration files."),
    "aws_region": text_setting("AWS region", "The bucket's region; S3-compatible servers often take any."),
    "aws_role_arn": text_setting("AWS role ARN", "A role to assume with the credentials above."),
    "aws_role_external_id": text_setting(
        "AWS role external id", "The external id that the role's trust policy asks for."
    ),
    "s3_endpoint_url": text_setting(
        "S3 endpoint URL", "For S3-compatible servers, for example `http://127.0.0.1:9000`."
    ),
    "s3_kms_key_id": text_setting(
        "KMS key id", "Encrypt every object with this KMS key; unset: as the bucket does by default."
    ),
    "s3_path_style": truth_setting("Path-style addressing", "Put the bucket into the path instead of the host name."),
    "s3_probe_max_wait_seconds": number_setting(
        "Probe wait",
        "How long a writer asks again if the answers of storage do not show whether it honours conditional writes. "
        "After that it stops before it writes; 0: at once.",
        default=60,
        minimum=0,
    ),
}
"""The settings of S3, name -> JSON Schema."""

AZURE_SETTINGS: dict[str, dict[str, Any]] = {
    "azure_account_name": text_setting(
        "Azure storage account",
        "Not needed with a connection string, an endpoint URL, or an `abfss://` root, which name it.",
    ),
    "azure_account_key": text_setting(
        "Azure account key",
        "Leave all credentials unset to use `AZURE_STORAGE_*` of the environment, or else azure-identity's own chain: "
        "environment, workload identity, managed identity, Azure CLI.",
        secret=True,
    ),
    "azure_sas_token": text_setting("Azure SAS token", "A shared access signature of the container.", secret=True),
    "azure_connection_string": text_setting(
        "Azure connection string", "As the portal shows it under access keys.", secret=True
    ),
    "azure_tenant_id": text_setting("Azure tenant id", "The tenant of a service principal."),
    "azure_client_id": text_setting(
        "Azure client id", "A service principal; without a secret, a user-assigned managed identity."
    ),
    "azure_client_secret": text_setting("Azure client secret", "The secret of the service principal.", secret=True),
    "azure_endpoint_url": text_setting(
        "Azure endpoint URL",
        "The account's Blob endpoint if it is not `https://ACCOUNT.blob.core.windows.net`, for example "
        "`http://127.0.0.1:10000/devstoreaccount1`.",
    ),
}
"""The settings of Azure Blob Storage, name -> JSON Schema."""

GCS_SETTINGS: dict[str, dict[str, Any]] = {
    "gcs_service_account_file": text_setting(
        "Google credentials file",
        "The path of a service account's key, or of a configuration of workload identity federation. Leave both unset "
        "to use Application Default Credentials: environment, gcloud, workload identity, the machine's account.",
    ),
    "gcs_service_account_json": text_setting(
        "Google credentials", "The content of such a file instead of its path.", secret=True
    ),
    "gcs_user_project": text_setting(
        "Billed Google project", "The project that pays for requests to a bucket whose requester pays."
    ),
    "gcs_kms_key_name": text_setting(
        "Cloud KMS key",
        "Encrypt every object with this key, `projects/.../cryptoKeys/...`; unset: as the bucket does by default.",
    ),
    "gcs_endpoint_url": text_setting(
        "Google endpoint URL",
        "For servers that speak the JSON API of Google Cloud Storage, for example `http://127.0.0.1:9000`.",
    ),
}
"""The settings of Google Cloud Storage, name -> JSON Schema."""

STORAGE_SETTINGS: dict[str, dict[str, Any]] = {
    **S3_SETTINGS,
    **AZURE_SETTINGS,
    **GCS_SETTINGS,
    "patience_seconds": number_setting(
        "Patience",
        "How long each request waits for a storage or a database that is busy or refuses connections: long enough for "
        "it to restart. A quarter of that if it has never answered this process.",
        default=PATIENCE_SECONDS,
        minimum=0,
    ),
}
"""Those of all storages. The last is for databases, too."""


STORE_SETTINGS: dict[str, dict[str, Any]] = {
    "dynamodb_table": text_setting(
        "DynamoDB table", "For the manifest store `dynamodb`: the table of the transaction log.", default="singerlake"
    ),
    "dynamodb_endpoint_url": text_setting(
        "DynamoDB endpoint URL", "For servers that speak DynamoDB's protocol; unset: the region's own."
    ),
    "dynamodb_query_items": truth_setting(
        "Query items",
        "For the manifest store `dynamodb`: snapshots of more than 500 files also write the entry of each file as an "
        "item of the table, and readers ask for those that they need, and for what is newer than `manifest.json`. "
        "Set it for all writers of a lake. Readers need the permissions `dynamodb:GetItem` and `dynamodb:Query`.",
        default=False,
    ),
    "postgres_url": text_setting(
        "PostgreSQL URL", "For the manifest store `postgres`: `postgresql://user:password@host/database`.", secret=True
    ),
    "postgres_schema": text_setting(
        "PostgreSQL schema", "For the manifest store `postgres`: the schema of its tables.", default="singerlake"
    ),
    "merge_stale_seconds": number_setting(
        "Clock tolerance of merge",
        "For the manifest store `merge`: by how much a writer's clock may differ from the storage's. Commits settle "
        "after twice this and six seconds.",
        default=2,
        minimum=2,
    ),
}
"""The settings of manifest stores, name -> JSON Schema. Each serves the store it is named after."""

QUERY_SETTINGS: dict[str, dict[str, Any]] = {
    name: STORE_SETTINGS[name] for name in ("dynamodb_table", "dynamodb_endpoint_url", "dynamodb_query_items")
}
"""Those of them that readers have a use for, name -> JSON Schema."""

SNAPSHOT_SETTINGS: dict[str, dict[str, Any]] = {
    "snapshot_transactions": number_setting(
        "Transactions between snapshots",
        "For every manifest store but `lockfile`: while it commits, a run brings `manifest.json` up so often that a "
        "reader that starts replays at most this many transactions.",
        default=100,
        minimum=1,
    ),
    "snapshot_minutes": number_setting(
        "Minutes between snapshots",
        "For every manifest store but `lockfile`: `manifest.json` is also brought up by the next commit, or the next "
        "run, that finds it this old.",
        default=10,
        minimum=1,
    ),
}
"""Further ones, of those who write for long: of all manifest stores but one, name -> JSON Schema."""


@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """The settings of manifest stores. ``postgres_url`` holds a password, so the ``repr`` leaves it out."""

    dynamodb_table: str = "singerlake"
    dynamodb_endpoint_url: str | None = None
    dynamodb_query_items: bool = False
    postgres_url: str | None = field(default=None, repr=False)
    postgres_schema: str = "singerlake"
    merge_stale_seconds: int = 2
    snapshot_transactions: int = 100
    snapshot_minutes: int = 10


def store_settings(config: Mapping[str, Any]) -> StoreSettings:
    """What ``config`` says of manifest stores; settings that are unset, null or empty keep their defaults."""
    known = {**STORE_SETTINGS, **SNAPSHOT_SETTINGS}
    chosen: dict[str, Any] = {name: config[name] for name in known if config.get(name) not in (None, "")}
    return StoreSettings(**_with_truths(with_numbers(chosen, known), known))


def with_numbers(config: Mapping[str, Any], described: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """``config`` with whole numbers where the environment or Spark gave their digits. Raises ``SettingError``."""
    numbers = {name: keys.get("minimum", 0) for name, keys in described.items() if "integer" in keys["type"]}
    return {
        name: _whole(value, name, numbers[name]) if name in numbers and isinstance(value, str) else value
        for name, value in config.items()
    }


def _with_truths(config: Mapping[str, Any], described: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """``config`` with true or false where the environment or Spark gave the word. Raises ``SettingError``."""
    truths = {name for name, keys in described.items() if "boolean" in keys["type"]}
    return {
        name: _truth(value, name) if name in truths and isinstance(value, str) else value
        for name, value in config.items()
    }


def _truth(text: str, name: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise SettingError(f"{name} is neither true nor false", hint=f"set {name} to one of them", value=text)
    return text.lower() == "true"


def _whole(text: str, name: str, least: int) -> int:
    if not text.isascii() or not text.isdigit() or int(text) < least:
        raise SettingError(f"{name} is not a whole number of {least} or more", hint=f"set {name} to one", value=text)
    return int(text)


def without_secrets(text: str) -> str:
    """What singer-sdk says of a wrong configuration, without the value of a setting that is a secret."""
    for name, described in {**STORAGE_SETTINGS, **STORE_SETTINGS}.items():
        if described.get("secret") and f"config['{name}']" in text:
            return f"{name} is not valid (its value is not shown)"
    return text


def unknown_settings(config: Mapping[str, Any], known: Collection[str]) -> list[str]:
    """What to say of settings that a plugin does not have: singer-sdk passes over them, and over typing mistakes."""
    told = []
    for name in config:
        if name not in known:
            from difflib import get_close_matches

            close = get_close_matches(name, known, n=1)
            meant = f"; did you mean {close[0]!r}?" if close else ""
            told.append(f"setting {shown(repr(name))} is not known and does nothing{meant}")
    return told


def unread_variables(
    plugin: str, config: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]], environment: Mapping[str, str]
) -> list[str]:
    """The settings of a plugin that its environment names and its configuration leaves at the default: in Meltano a
    variable counts only for a setting that ``meltano.yml`` names, elsewhere only with ``--config=ENV``."""
    prefix = plugin.upper().replace("-", "_") + "_"
    messages = []
    for name, described in known.items():
        text, default = environment.get(prefix + name.upper()), described.get("default")
        if text and config.get(name) in (None, default) and text.lower() != str(default).lower():
            messages.append(name)
    return messages


def without_effect(
    plugin: str, config: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]], environment: Mapping[str, str]
) -> list[str]:
    """What a plugin is to warn of: settings that it does not have, and variables that are set and not read."""
    names = unread_variables(plugin, config, known, environment)
    return [*unknown_settings(config, known), *([unread(plugin, names)] if names else [])]


def unread(plugin: str, names: Collection[str]) -> str:
    """What to say of those; never their values, which may be secret."""
    prefix = plugin.upper().replace("-", "_") + "_"
    variables = ", ".join(f"${prefix}{name.upper()}" for name in names)
    return f"{variables} is set and not read; name the setting in meltano.yml, or run the plugin with --config=ENV"


_S3_FIELDS = {name: name.partition("_")[2] for name in S3_SETTINGS} | {
    "s3_probe_max_wait_seconds": "probe_max_wait",
    "patience_seconds": "patience_seconds",
}
_GCS_FIELDS = {name: name.removeprefix("gcs_") for name in (*GCS_SETTINGS, "patience_seconds")}
_AZURE_FIELDS = {name: name.removeprefix("azure_") for name in (*AZURE_SETTINGS, "patience_seconds")}


def storage_settings(config: Mapping[str, Any]) -> StorageSettings:
    """What ``config`` says of storages; unset, null and empty settings keep their defaults. Raises ``SettingError``."""
    from singerlake.aws.settings import S3Settings
    from singerlake.storage.drivers.azure.settings import AzureSettings
    from singerlake.storage.drivers.gcs.settings import GcsSettings
    from singerlake.storage.settings import StorageSettings

    given = {name: value for name, value in with_numbers(config, STORAGE_SETTINGS).items() if value not in (None, "")}

    def chosen(fields: Mapping[str, str]) -> dict[str, Any]:
        return {field: given[name] for name, field in fields.items() if name in given}

    return StorageSettings(
        s3=S3Settings(**chosen(_S3_FIELDS)),
        azure=AzureSettings(**chosen(_AZURE_FIELDS)),
        gcs=GcsSettings(**chosen(_GCS_FIELDS)),
    )

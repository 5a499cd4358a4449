"""What has to be known to reach any storage: a lake is on one, its batches may be on another."""

from __future__ import annotations

from dataclasses import dataclass, field

from singerlake.aws.settings import S3Settings
from singerlake.storage.drivers.azure.settings import AzureSettings
from singerlake.storage.drivers.gcs.settings import GcsSettings

AnySettings = S3Settings | AzureSettings | GcsSettings


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """The settings of every storage that is not a local disk. ``s3`` has the credentials for DynamoDB, too."""

    s3: S3Settings = field(default_factory=S3Settings)
    azure: AzureSettings = field(default_factory=AzureSettings)
    gcs: GcsSettings = field(default_factory=GcsSettings)


def together(settings: StorageSettings | AnySettings | None) -> StorageSettings:
    """All settings, of which those of one storage or none are given."""
    match settings:
        case StorageSettings():
            return settings
        case S3Settings():
            return StorageSettings(s3=settings)
        case AzureSettings():
            return StorageSettings(azure=settings)
        case GcsSettings():
            return StorageSettings(gcs=settings)
        case None:
            return StorageSettings()

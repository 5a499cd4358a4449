"""What has to be known to reach a bucket of Google Cloud Storage."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from singerlake.errors import SettingError
from singerlake.storage.checks import check_endpoint, check_settings
from singerlake.storage.patience import PATIENCE_SECONDS

CREDENTIALS_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"
_SECRET_MEMBERS = ("private_key", "private_key_id", "client_secret", "refresh_token")


@dataclass(frozen=True, slots=True)
class GcsSettings:
    """How to reach a bucket of Google Cloud Storage.

    ``service_account_file`` is the path of a service account's key, or of a configuration of workload identity
    federation; ``service_account_json`` is the content of such a file. Without both, google-auth's own chain is asked
    (Application Default Credentials). A server that is not Google's, by ``endpoint_url`` or ``STORAGE_EMULATOR_HOST``,
    gets no credentials unless some are named. ``user_project`` is billed where the requester pays. Raises
    ``SettingError`` where settings contradict each other.
    """

    service_account_file: str | None = None
    service_account_json: str | None = field(default=None, repr=False)
    user_project: str | None = None
    kms_key_name: str | None = None
    endpoint_url: str | None = None
    patience_seconds: int = PATIENCE_SECONDS

    def __post_init__(self) -> None:
        # The content of a file has lines.
        check_settings(replace(self, service_account_json=None) if self.service_account_json else self, "gcs_{}".format)
        if self.service_account_file and self.service_account_json:
            raise SettingError(
                "gcs_service_account_file and gcs_service_account_json are both set", hint="keep one of them"
            )
        if self.endpoint_url:
            check_endpoint("gcs_endpoint_url", self.endpoint_url, credentials="gcs_service_account_file")
        if self.service_account_json:
            self.service_account()

    def service_account(self) -> dict[str, Any]:
        """The content of ``service_account_json``. Raises ``SettingError``, which shows nothing of it."""
        try:
            found = json.loads(self.service_account_json or "")
        except ValueError:
            found = None
        if not isinstance(found, dict) or not isinstance(found.get("type"), str):
            # Outside the handler: what the parser says may show a part of the key.
            raise SettingError(
                "gcs_service_account_json is not the content of a key file",
                hint="set it to the whole JSON text, or set gcs_service_account_file to the file's path",
            )
        return found

    @property
    def credentials_from(self) -> str:
        """The setting or the variable that gives the credentials, or would."""
        if self.service_account_json:
            return "gcs_service_account_json"
        if self.service_account_file or not os.environ.get(CREDENTIALS_VARIABLE):
            return "gcs_service_account_file"
        return CREDENTIALS_VARIABLE

    def secrets(self) -> tuple[str, ...]:
        """The values that no message may show."""
        if not self.service_account_json:
            return ()
        members = self.service_account()
        values = [members.get(name) for name in _SECRET_MEMBERS]
        return (self.service_account_json, *(value for value in values if isinstance(value, str) and value))


def endpoint_of(settings: GcsSettings) -> str | None:
    """Where requests go, as far as settings and environment say; None for Google."""
    named = settings.endpoint_url or os.environ.get("STORAGE_EMULATOR_HOST") or None
    # Emulators have themselves named both ways.
    return named if named is None or "://" in named else f"http://{named}"


def is_google(endpoint_url: str) -> bool:
    """Whether an endpoint is one of Google's, a private one too."""
    host = urlsplit(endpoint_url).hostname or ""
    return host == "googleapis.com" or host.endswith(".googleapis.com")

"""What has to be known to reach an S3 bucket."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from singerlake.errors import SettingError
from singerlake.storage.checks import check_endpoint, check_settings
from singerlake.storage.patience import PATIENCE_SECONDS

KEYS = "aws_access_key_id and its secret"
"""The settings that take credentials."""


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How to reach an S3 bucket; botocore finds what is None by its own chain of environment, files and roles.

    ``region`` is needed with most endpoints other than AWS, and ``path_style`` is on by default with these.
    ``patience_seconds`` is for DynamoDB, too. A role is assumed with the credentials that the other settings give, and
    again before they expire. Raises ``SettingError`` where settings contradict each other.
    """

    access_key_id: str | None = field(default=None, repr=False)
    secret_access_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    profile: str | None = None
    region: str | None = None
    role_arn: str | None = None
    role_external_id: str | None = field(default=None, repr=False)
    endpoint_url: str | None = None
    kms_key_id: str | None = None
    path_style: bool | None = None
    probe_max_wait: float = 60.0
    patience_seconds: int = PATIENCE_SECONDS

    def __post_init__(self) -> None:
        check_settings(self, _name_of)
        self._check_pair("access_key_id", "secret_access_key")
        self._check_pair("secret_access_key", "access_key_id")
        self._check_pair("session_token", "access_key_id")
        self._check_pair("role_external_id", "role_arn")
        if self.profile and self.access_key_id:
            raise SettingError("aws_profile and aws_access_key_id are both set", hint="keep one of them")
        if self.endpoint_url:
            check_endpoint("s3_endpoint_url", self.endpoint_url, credentials=KEYS)

    def secrets(self) -> tuple[str, ...]:
        """The values that no message may show."""
        values = (self.secret_access_key, self.session_token, self.role_external_id)
        return tuple(value for value in values if value)

    def _check_pair(self, name: str, needed: str) -> None:
        if getattr(self, name) and not getattr(self, needed):
            raise SettingError(f"aws_{name} is set without aws_{needed}", hint="set both")


def _name_of(field: str) -> str:
    return f"{'s3' if field in ('endpoint_url', 'kms_key_id') else 'aws'}_{field}"


def endpoint_of(settings: S3Settings) -> str | None:
    """Where requests go, as far as settings and environment say; None for AWS, or what a profile names."""
    return settings.endpoint_url or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or None


def is_amazon(endpoint_url: str) -> bool:
    """Whether an endpoint is one of AWS, a private one too."""
    host = urlsplit(endpoint_url).hostname or ""
    return host.endswith((".amazonaws.com", ".amazonaws.com.cn", ".api.aws", ".amazonaws.eu"))

"""How S3 is reached: settings, credentials, clients. boto3 is imported when the first client is made, not before."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar
from urllib.parse import urlsplit

from singerlake.errors import AccessDenied, SettingError
from singerlake.storage.patience import PATIENCE_SECONDS, Patience
from singerlake.storage.s3_role import in_role
from singerlake.storage.s3_waiting import wait_in

_SETTING_NAMES = {
    "access_key_id": "aws_access_key_id",
    "secret_access_key": "aws_secret_access_key",
    "session_token": "aws_session_token",
    "profile": "aws_profile",
    "region": "aws_region",
    "role_arn": "aws_role_arn",
    "role_external_id": "aws_role_external_id",
    "endpoint_url": "s3_endpoint_url",
    "kms_key_id": "s3_kms_key_id",
    "path_style": "s3_path_style",
    "probe_max_wait": "s3_probe_max_wait_seconds",
}
_FALLBACK_REGION = "us-east-1"

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class S3Settings:
    """How to reach an S3 bucket; whatever is None is left to botocore's own chain of environment, files and roles.

    ``region`` is needed with most endpoints other than AWS. ``path_style`` is on by default with ``endpoint_url``.
    ``patience_seconds`` is how long requests wait for a server that does not answer or is busy, DynamoDB's too.
    A role is assumed with the credentials that the other settings give, and again whenever they are about to expire.
    Raises ``SettingError`` where settings contradict each other.
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
        for each in fields(self):
            value = getattr(self, each.name)
            # a line break in a credential would reach an HTTP header, and from there an error message
            if isinstance(value, str) and (not value or value != value.strip() or not value.isprintable()):
                raise SettingError(
                    f"{_SETTING_NAMES[each.name]} is empty or has white space around it or control characters in it",
                    hint="correct it, or leave it out",
                )
        self._check_pair("access_key_id", "secret_access_key")
        self._check_pair("secret_access_key", "access_key_id")
        self._check_pair("session_token", "access_key_id")
        self._check_pair("role_external_id", "role_arn")
        if self.profile and self.access_key_id:
            raise SettingError("aws_profile and aws_access_key_id are both set", hint="keep one of them")
        if self.patience_seconds < 0:
            raise SettingError("patience_seconds is below 0", hint="set it to 0 or more")
        if self.endpoint_url:
            check_endpoint("s3_endpoint_url", self.endpoint_url)

    def secrets(self) -> tuple[str, ...]:
        """The values that no message may show."""
        values = (self.secret_access_key, self.session_token, self.role_external_id)
        return tuple(value for value in values if value)

    def _check_pair(self, name: str, needed: str) -> None:
        if getattr(self, name) and not getattr(self, needed):
            raise SettingError(f"{_SETTING_NAMES[name]} is set without {_SETTING_NAMES[needed]}", hint="set both")


def check_endpoint(name: str, url: str) -> None:
    """Refuse what is no endpoint, or holds what messages must not show. ``name`` is the setting's. Raises
    ``SettingError``, which does not show the URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingError(f"{name} is not a URL", hint="write http://host:port or https://host")
    if parts.username or parts.password:
        raise SettingError(f"{name} holds credentials", hint="put them into aws_access_key_id and its secret")


@dataclass(frozen=True, slots=True)
class Clients:
    """Neither retries by itself: botocore's silent retry of a conditional PUT whose reply was lost would show as a
    refusal by one's own write. ``single`` stays so; ``patient`` is for what is harmless to repeat, and waits."""

    patient: Any
    single: Any


def connect(settings: S3Settings, patience: Patience) -> Clients:
    """Clients for these settings; nothing is sent yet. Raises ``AccessDenied`` and ``SettingError``."""
    clients = in_session(
        settings,
        lambda session: Clients(patient=_client(session, settings), single=_client(session, settings)),
        patience,
    )
    wait_in(clients.patient, patience)
    return clients


def in_session(settings: S3Settings, make: Callable[[Any], Result], patience: Patience) -> Result:
    """What ``make`` makes of a boto3 session that finds credentials and region as the settings say, for any service of
    AWS; nothing is sent yet. ``patience`` is that with what assumes a role. Raises ``AccessDenied`` and
    ``SettingError``."""
    import boto3
    import botocore.exceptions

    _keep_tokens_out_of_logs()
    try:
        return make(boto3.Session(botocore_session=_session(settings, patience)))
    except botocore.exceptions.ProfileNotFound as error:
        raise AccessDenied(
            "the AWS profile does not exist", hint="check aws_profile", profile=settings.profile
        ) from error
    except botocore.exceptions.BotoCoreError as error:
        raise SettingError(
            "no client of AWS can be made from these settings",
            hint="check the aws_ ones and the endpoint",
            reason=str(error),
        ) from error


def _keep_tokens_out_of_logs() -> None:
    """Hold botocore's log to INFO unless its own level is set: at DEBUG it shows session tokens, and what assuming a
    role answered. A plugin's DEBUG is set by people who then pass its log on."""
    botocore = logging.getLogger("botocore")
    if botocore.level == logging.NOTSET:
        botocore.setLevel(logging.INFO)


def _client(session: Any, settings: S3Settings) -> Any:
    from botocore.config import Config

    path_style = bool(settings.endpoint_url) if settings.path_style is None else settings.path_style
    style = "path" if path_style else "auto" if settings.path_style is None else "virtual"
    options: dict[str, Any] = {
        "retries": {"total_max_attempts": 1, "mode": "standard"},
        "s3": {"addressing_style": style},
        "connect_timeout": 10,
        "read_timeout": 60,
        "max_pool_connections": 32,
        "tcp_keepalive": True,
    }
    if settings.endpoint_url:  # most stores other than AWS refuse the checksum trailers that botocore adds by default
        options["request_checksum_calculation"] = "when_required"
        options["response_checksum_validation"] = "when_required"
    region = region_for(settings, session, settings.endpoint_url)
    return session.client("s3", region_name=region, endpoint_url=settings.endpoint_url, config=Config(**options))


def region_for(settings: S3Settings, session: Any, endpoint_url: str | None) -> str | None:
    """The region to sign for: servers other than AWS take any."""
    return settings.region or session.region_name or (_FALLBACK_REGION if endpoint_url else None)


def _session(settings: S3Settings, patience: Patience) -> Any:
    """A botocore session that finds its credentials as the settings say."""
    import botocore.session

    session = botocore.session.Session(profile=settings.profile)
    if settings.access_key_id:
        session.set_credentials(settings.access_key_id, settings.secret_access_key, settings.session_token)
    if settings.region:
        session.set_config_variable("region", settings.region)
    if not settings.role_arn:
        return session
    region = settings.region or session.get_config_variable("region") or _FALLBACK_REGION
    return in_role(session, settings, region, patience)

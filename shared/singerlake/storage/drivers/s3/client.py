"""The client by which S3 is reached."""

from __future__ import annotations

from typing import Any

from singerlake.aws.session import in_session, region_for
from singerlake.aws.settings import S3Settings, is_amazon
from singerlake.storage.drivers.s3.expect_continue import ask_above
from singerlake.storage.patience import Patience

_AT_ONCE = 1 << 20
"""Bytes of a conditional write that go with its headers. What came of a larger one that broke off would be unknown."""

_CONNECTIONS = 160
"""Connections that are kept for the next request: for 16 files that go up in eight parts at a time, and some more."""


def connect(settings: S3Settings, patience: Patience) -> Any:
    """A client of botocore for these settings, which sends each request once: a silent retry of a conditional PUT whose
    reply was lost would show as a refusal by one's own write. Nothing is sent yet. Raises ``AccessDeniedError`` and
    ``SettingError``."""
    client = in_session(settings, lambda session: _client(session, settings), patience)
    ask_above(client, _AT_ONCE)
    return client


def _client(session: Any, settings: S3Settings) -> Any:
    client = _client_of(session, settings, settings.endpoint_url)
    endpoint = client.meta.endpoint_url
    if settings.endpoint_url is None and not is_amazon(endpoint):
        # The environment or the profile names it, and it needs what a server other than AWS needs.
        client = _client_of(session, settings, endpoint)
    return client


def _client_of(session: Any, settings: S3Settings, endpoint_url: str | None) -> Any:
    from botocore.config import Config

    path_style = bool(endpoint_url) if settings.path_style is None else settings.path_style
    style = "path" if path_style else "auto" if settings.path_style is None else "virtual"
    options: dict[str, Any] = {
        "retries": {"total_max_attempts": 1, "mode": "standard"},
        "s3": {"addressing_style": style},
        "connect_timeout": 10,
        "read_timeout": 60,
        "max_pool_connections": _CONNECTIONS,
        "tcp_keepalive": True,
    }
    if endpoint_url:
        # Most stores other than AWS refuse the checksum trailers that botocore adds by default; some answer a range
        # with the checksum of the whole object.
        options["request_checksum_calculation"] = "when_required"
        options["response_checksum_validation"] = "when_required"
    region = region_for(settings, session, endpoint_url)
    return session.create_client("s3", region_name=region, endpoint_url=endpoint_url, config=Config(**options))

"""What the settings of every storage are checked for, whatever it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any
from urllib.parse import urlsplit

from singerlake.errors import SettingError


def check_settings(settings: Any, name_of: Callable[[str], str]) -> None:
    """Refuse texts that are empty, have white space around them or control characters, which would reach an HTTP
    header, and a patience below 0. ``name_of`` gives a field's setting. Raises ``SettingError`` without the value."""
    for each in fields(settings):
        value = getattr(settings, each.name)
        if isinstance(value, str) and (not value or value != value.strip() or not value.isprintable()):
            raise SettingError(
                f"{name_of(each.name)} is empty or has white space around it or control characters in it",
                hint="correct it, or leave it out",
            )
    if settings.patience_seconds < 0:
        raise SettingError("patience_seconds is below 0", hint="set it to 0 or more")


def check_endpoint(name: str, url: str, *, credentials: str) -> None:
    """Refuse what is not an endpoint, or holds what messages must not show. ``name`` is the setting's, and
    ``credentials`` says which settings take them. Raises ``SettingError``, which does not show the URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingError(f"{name} is not a URL", hint="write http://host:port or https://host")
    if parts.username or parts.password or parts.query:
        raise SettingError(f"{name} holds credentials", hint=f"put them into {credentials}")

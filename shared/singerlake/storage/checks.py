"""What the settings of every storage are checked for, whatever it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any
from urllib.parse import urlsplit

from singerlake.errors import SettingError


def check_texts(settings: Any, names: Mapping[str, str]) -> None:
    """Refuse texts that are empty, have white space around them or control characters in them: a line break in a
    credential would reach an HTTP header, and from there an error message. ``names`` are the settings' by field. Raises
    ``SettingError``, which does not show the value."""
    for each in fields(settings):
        value = getattr(settings, each.name)
        if isinstance(value, str) and (not value or value != value.strip() or not value.isprintable()):
            raise SettingError(
                f"{names[each.name]} is empty or has white space around it or control characters in it",
                hint="correct it, or leave it out",
            )


def check_endpoint(name: str, url: str, *, credentials: str) -> None:
    """Refuse what is not an endpoint, or holds what messages must not show. ``name`` is the setting's, and
    ``credentials`` says which settings take them. Raises ``SettingError``, which does not show the URL."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingError(f"{name} is not a URL", hint="write http://host:port or https://host")
    if parts.username or parts.password or parts.query:
        raise SettingError(f"{name} holds credentials", hint=f"put them into {credentials}")

"""Connection strings, account keys and SAS tokens: what they have to look like, and what they hold.

https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass, field
from datetime import UTC, datetime
from urllib.parse import parse_qsl, unquote

from singerlake.errors import SettingError

_EMULATOR = "http://127.0.0.1:10000/devstoreaccount1"
# Every emulator has this key: https://learn.microsoft.com/azure/storage/common/storage-connect-azurite
_EMULATOR_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
_SUFFIX = "core.windows.net"


@dataclass(frozen=True, slots=True)
class ConnectionString:
    """What one holds; None: it does not say."""

    account: str | None
    key: str | None = field(repr=False)
    sas: str | None = field(repr=False)
    endpoint: str | None


def parsed(text: str, name: str) -> ConnectionString:
    """What a connection string holds that the setting or the variable ``name`` gives. Raises ``SettingError``, which
    shows nothing of it."""
    parts = dict[str, str]()
    for part in text.strip().rstrip(";").split(";"):
        word, equals, value = part.partition("=")
        if not equals or not word.strip():
            raise _malformed(name, "a part of it is not name=value")
        parts[word.strip().lower()] = value.strip()
    if parts.get("usedevelopmentstorage", "").lower() == "true":
        return ConnectionString("devstoreaccount1", _EMULATOR_KEY, None, _EMULATOR)
    account, key, sas = (parts.get(word) or None for word in ("accountname", "accountkey", "sharedaccesssignature"))
    endpoint = parts.get("blobendpoint") or None
    if endpoint is None and account:
        protocol = parts.get("defaultendpointsprotocol") or "https"
        endpoint = f"{protocol}://{account}.blob.{parts.get('endpointsuffix') or _SUFFIX}"
    if endpoint is None:
        raise _malformed(name, "it has neither AccountName nor BlobEndpoint")
    if not endpoint.startswith(("http://", "https://")):
        raise _malformed(name, "its BlobEndpoint is not a URL")
    if key is None and sas is None:
        raise _malformed(name, "it has neither AccountKey nor SharedAccessSignature")
    if key is not None:
        if account is None:
            raise _malformed(name, "it has an AccountKey and no AccountName")
        check_key(key, f"the AccountKey of {name}")
        # Azure lets a key do whatever a SAS token does.
        sas = None
    return ConnectionString(account, key, bare_sas(sas, f"the SharedAccessSignature of {name}"), endpoint.rstrip("/"))


def check_key(key: str, name: str) -> None:
    """Raise ``SettingError`` where a text is not an account key, without showing it."""
    try:
        decoded = base64.b64decode(key, validate=True)
    except (binascii.Error, ValueError):
        decoded = b""
    if not decoded:
        raise SettingError(
            f"{name} is not an account key: it is not base64", hint="copy the whole key, with the '=' at its end"
        )


def bare_sas(token: str | None, name: str) -> str | None:
    """A SAS token without the question mark that portals put before it. Raises ``SettingError`` where it is none."""
    if token is None:
        return None
    token = token.lstrip("?")
    if "://" in token.partition("=")[0] or not signatures(token):
        raise SettingError(
            f"{name} is not a SAS token", hint="write what follows the '?' of a SAS URL: sv=...&sig=..., nothing else"
        )
    return token


def signatures(token: str) -> tuple[str, ...]:
    """What signs a SAS token, as it is written in it and as it is."""
    words = [part.partition("=") for part in token.split("&")]
    written = [value for word, _, value in words if word.lower() == "sig" and value]
    plain = [value for word, value in parse_qsl(token) if word.lower() == "sig"]
    return tuple(dict.fromkeys([*written, *map(unquote, written), *plain]))


def expiry(token: str) -> datetime | None:
    """When a SAS token is over, as it says; None where it does not, or not in a way that is known
    (https://learn.microsoft.com/rest/api/storageservices/formatting-datetime-values)."""
    said = next((value for word, value in parse_qsl(token) if word.lower() == "se"), "")
    try:
        until = datetime.fromisoformat(said)
    except ValueError:
        return None
    return until if until.tzinfo else until.replace(tzinfo=UTC)


def _malformed(name: str, why: str) -> SettingError:
    return SettingError(
        f"{name} is not a connection string: {why}",
        hint="copy it whole from 'Access keys' of the storage account: AccountName=...;AccountKey=...",
    )

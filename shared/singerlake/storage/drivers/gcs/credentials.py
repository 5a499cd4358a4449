"""As whom storage is spoken to: a service account, an identity of another cloud, what google-auth finds, or nobody.

Key files are read by their kind, as google-auth advises: its function for all of them asks Google, too, in which
project a foreign identity is, which needs a permission and a network that a lake does not
(https://cloud.google.com/docs/authentication/external/externally-sourced-credentials).
"""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path
from typing import Any

from singerlake.errors import SettingError
from singerlake.storage.drivers.gcs.settings import CREDENTIALS_VARIABLE, GcsSettings, is_google

_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)
_AWS_TOKEN = "urn:ietf:params:aws:token-type:aws4_request"  # noqa: S105  # names a kind of token


def credentials_for(settings: GcsSettings, endpoint: str | None) -> Any:
    """The credentials that settings or environment name, or google-auth finds; none for a server that is not Google's.
    Asking google-auth there would send the machine's own token to a stranger, after seconds of looking for a metadata
    server. Nothing is sent yet, unless google-auth looks for such a server. Raises its errors, and ``SettingError``."""
    import google.auth
    from google.auth.credentials import AnonymousCredentials, with_scopes_if_required

    if settings.service_account_json:
        return _loaded(settings.service_account(), "gcs_service_account_json")
    if settings.service_account_file:
        return _read(settings.service_account_file, "gcs_service_account_file")
    if os.environ.get(CREDENTIALS_VARIABLE):
        return _read(os.environ[CREDENTIALS_VARIABLE], CREDENTIALS_VARIABLE)
    if endpoint and not is_google(endpoint):
        return AnonymousCredentials()
    found, _ = google.auth.default(scopes=_SCOPES)
    return with_scopes_if_required(found, _SCOPES)


def _read(path: str, setting: str) -> Any:
    """The credentials that a file holds."""
    info: Any = None
    try:
        info = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise SettingError(
            f"the file of {setting} cannot be read", hint="check its path and permissions", reason=error.strerror
        ) from error
    except ValueError:
        # Told below, where no traceback shows what the parser read.
        pass
    return _loaded(info, setting)


def _loaded(info: Any, setting: str) -> Any:
    """The credentials that the content of a file stands for. Raises ``SettingError``, which shows nothing of it."""
    from google.auth.exceptions import GoogleAuthError

    try:
        found = _of_kind(info)
    except (GoogleAuthError, ValueError, TypeError, AttributeError, KeyError) as error:
        broken = type(error).__name__
    else:
        # Not all kinds know who pays.
        return getattr(found, "with_quota_project_from_environment", lambda: found)()
    # Outside the handler: what a parser of keys says may show a part of one.
    raise SettingError(
        f"{setting} holds no credentials that can be used",
        hint="set it to a service account's key or a configuration of workload identity federation",
        error=broken,
    )


def _of_kind(info: Any) -> Any:
    import google.auth
    from google.auth import aws, identity_pool, pluggable
    from google.oauth2 import service_account

    if info["type"] == "service_account":
        return service_account.Credentials.from_service_account_info(info, scopes=_SCOPES)
    if info["type"] != "external_account":
        # What gcloud writes for people, say. google-auth warns of its function for configurations of strangers.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            return google.auth.load_credentials_from_dict(info, scopes=_SCOPES)[0]
    kind = identity_pool
    if info.get("subject_token_type") == _AWS_TOKEN:
        kind = aws
    elif "executable" in (info.get("credential_source") or {}):
        kind = pluggable
    return kind.Credentials.from_info(info, scopes=_SCOPES)

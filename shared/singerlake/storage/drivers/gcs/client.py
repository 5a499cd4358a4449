"""How Google Cloud Storage is reached: credentials, the session, and one request. Nothing of Google's libraries is
imported before the first request.

Requests go through the session of google-cloud-storage: its own calls hide the headers of a reply, which say what an
object was when it was read, and send one upload as several requests from 8 MB on. Key files are read by their kind, as
google-auth advises: its function for all also asks Google for the project of a foreign identity, which needs a
permission (https://cloud.google.com/docs/authentication/external/externally-sourced-credentials).
"""

from __future__ import annotations

import json
import logging
import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from singerlake.errors import SettingError
from singerlake.interpreter.process import made_to_last
from singerlake.storage.drivers.gcs.settings import CREDENTIALS_VARIABLE, GcsSettings, endpoint_of, is_google

TIMEOUTS = (10.0, 60.0)
"""Seconds to connect, and to wait for each block of a reply."""
_CONNECTIONS = 32
_AT_ONCE = 1 << 18
"""Bytes."""
_JOINED = 1 << 20
"""Bytes up to which pieces are copied together, which sends fewer packets."""

Query = Mapping[str, "str | int | None"]

_SCOPES = ("https://www.googleapis.com/auth/devstorage.read_write",)
_AWS_TOKEN = "urn:ietf:params:aws:token-type:aws4_request"  # noqa: S105  # names a kind of token


class Body:
    """Bytes to send in blocks, as often as asked: urllib3 sends a whole body within the time to connect."""

    def __init__(self, *pieces: bytes | memoryview) -> None:
        self._pieces = pieces

    def __len__(self) -> int:
        return sum(len(piece) for piece in self._pieces)

    def __iter__(self) -> Iterator[bytes | memoryview]:
        for piece in self._pieces:
            view = memoryview(piece)
            for start in range(0, len(view), _AT_ONCE):
                yield view[start : start + _AT_ONCE]


def body_of(*pieces: bytes | memoryview) -> bytes | Body:
    """What sends these pieces behind each other."""
    whole = Body(*pieces)
    return b"".join(pieces) if len(whole) <= _JOINED else whole


class Client:
    """The way to one bucket's server, safe to share between threads."""

    def __init__(self, settings: GcsSettings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._connected: Any = None

    @property
    def library(self) -> Any:
        """The client of google-cloud-storage. Raises google-auth's errors, and ``SettingError``."""
        with self._lock:
            if self._connected is None:
                self._connected = _connect(self._settings)
            return self._connected

    def send(
        self,
        method: str,
        path: str,
        query: Query | str,
        body: bytes | Body | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        stream: bool = False,
        also: int = 200,
    ) -> Any:
        """Send one request, once; gives the reply where its status is below 300, or ``also``. A ``query`` that is a
        text is sent as it is. Raises google.api_core's errors for other replies, requests' and urllib3's where none
        came, google-auth's where no token was got."""
        library = self.library
        asked = query if isinstance(query, str) else urlencode(self.paid(query))
        # mTLS has a host of its own.
        base = library._connection.get_api_base_url_for_mtls()
        reply = library._http.request(
            method,
            f"{base}{path}?{asked}",
            data=body,
            headers={"User-Agent": library._connection.user_agent, "Accept-Encoding": "gzip", **(headers or {})},
            timeout=TIMEOUTS,
            stream=stream,
            # A redirect is not an answer of Google's; the token must not follow it.
            allow_redirects=False,
        )
        if reply.status_code >= 300 and reply.status_code != also:
            raise _error(reply)
        return reply

    def paid(self, query: Query) -> dict[str, str | int]:
        """What a query asks, in the name of who pays for it."""
        whole = {**query, "userProject": self._settings.user_project}
        return {name: value for name, value in whole.items() if value is not None}


def parsed(reply: Any) -> dict[str, Any]:
    """The JSON object of a reply. Raises ``SettingError`` where it is none, as from a portal with a page."""
    try:
        found = reply.json()
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise not_gcs()
    return found


def not_gcs() -> SettingError:
    """What answers a request with what Google Cloud Storage never says."""
    return SettingError(
        "the server that answers is not Google Cloud Storage", hint="check gcs_endpoint_url, and proxies on the way"
    )


def _error(reply: Any) -> Exception:
    from google.api_core import exceptions

    try:
        error: Exception = exceptions.from_http_response(reply)
    except (AttributeError, TypeError):
        # JSON, but not as Google writes errors.
        error = exceptions.from_http_status(reply.status_code, "not an error of Google's", response=reply)
    return error


@made_to_last()
def _connect(settings: GcsSettings) -> Any:
    from google.api_core.client_options import ClientOptions
    from google.auth.credentials import AnonymousCredentials
    from google.auth.transport.requests import AuthorizedSession
    from google.cloud.storage import Client as LibraryClient
    from requests.adapters import HTTPAdapter

    _keep_tokens_out_of_logs()
    endpoint = endpoint_of(settings)
    credentials = credentials_for(settings, endpoint)
    # A stranger has no token to renew, and is told what the server says.
    renewed = () if isinstance(credentials, AnonymousCredentials) else (401,)
    session = AuthorizedSession(credentials, refresh_status_codes=renewed, refresh_timeout=TIMEOUTS[1])
    for scheme in ("https://", "http://"):
        # No retries: only who waits for storage knows whether a request may be sent again. Those of google-auth for a
        # token, up to 3 within 3 seconds, cannot be turned off, and change nothing.
        session.mount(scheme, HTTPAdapter(max_retries=0, pool_maxsize=_CONNECTIONS))
    session.configure_mtls_channel()
    options: dict[str, Any] = {"api_endpoint": endpoint} if endpoint else {}
    if credentials.universe_domain != "googleapis.com":
        options["universe_domain"] = credentials.universe_domain
    # The project matters only where buckets are made or listed.
    return LibraryClient(
        project="none", credentials=credentials, _http=session, client_options=ClientOptions(**options)
    )


def _keep_tokens_out_of_logs() -> None:
    """Hold google-auth's log to INFO unless its own level is set: at DEBUG it shows requests and replies whole. A
    plugin's DEBUG is set by people who then pass its log on. The URL of an upload in parts is a token, too: whoever has
    it may send the rest (https://cloud.google.com/storage/docs/resumable-uploads#session-uris)."""
    google = logging.getLogger("google")
    if google.level == logging.NOTSET:
        google.setLevel(logging.INFO)
    connections = logging.getLogger("urllib3.connectionpool")
    if not any(isinstance(each, _NoUploads) for each in connections.filters):
        connections.addFilter(_NoUploads())


class _NoUploads(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return "upload_id=" not in record.getMessage()


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

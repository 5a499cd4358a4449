"""Where a text in a record says that a file lies, and whether the setting ``file_sources`` allows it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import quote, unquote, urljoin, urlsplit

from singerlake.errors import SettingError, UnreadableSourceError
from singerlake.humanize import cut

LONGEST = 8000
"""Characters of a location: a row that holds one fits into the extra field of a gzip member in any case."""
CLOUDS = ("s3", "gs", "az")
"""Schemes of objects in clouds."""
CORRECT = "correct the tap or the file, or set on_missing_file to record"
"""The next step after most errors."""
_INLINE = f"if it is the file itself, set base64 for this property; else {CORRECT}"
_FORMS = "a location is an absolute path, or begins with file:///, https://, s3://, gs:// or az://"
FOR_BYTES = f"{_FORMS}; if it is the file itself, set base64 for this property in file_properties"
"""The next step where a text is not a location, and may be bytes."""
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_.])?|\[[0-9a-f:.]+\]")
_URL = re.compile(r"(?:https|s3|gs|az)://", re.IGNORECASE)
_PATH = re.compile(r"/(?![/\\])|file:(?://(?:localhost)?)?/(?![/\\])", re.IGNORECASE)
_HOLDS_BYTES = re.compile(r"\s*data:", re.IGNORECASE)
_BASE64 = re.compile(r"(?:/9j/[A-Za-z0-9+/]{16}|[A-Za-z0-9+_-])[A-Za-z0-9+/_\r\n-]*+={0,2}\s*+")
"""What may be bytes as base64. Those of each JPEG begin with ``/9j/``; other absolute paths are none. A newline may
belong to two parts of it, and neither gives back what it took: to try all ways takes the square of a text's length."""
_USER = re.compile(r"\A(\w+:/+)[^/\\]*@")
_USER_ANYWHERE = re.compile(r"(\A(?:https?|s3|gs|az):[/\\]*|[/\\]{2}|\A)[^/\\]*@", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_PATH_SAFE = "/%:@!$&'()*+,;=~"
_QUERY_SAFE = _PATH_SAFE + "?"
_HTTPS_PORT = 443


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file of this machine; ``path`` is absolute, and may lead over ``..`` and symbolic links."""

    path: str

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class CloudObject:
    """An object in a bucket or a container. ``key`` is taken as it stands, without percent escapes."""

    scheme: str
    bucket: str
    key: str

    @property
    def root(self) -> str:
        """The bucket, as a lake's root names one."""
        return f"{self.scheme}://{self.bucket}"

    @property
    def segments(self) -> Sequence[str]:
        return self.key.split("/")

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class WebFile:
    """A file over https: ``host`` in lower case and ASCII, ``path`` and ``query``, with its ``?``, percent-encoded."""

    host: str
    port: int
    path: str
    query: str = ""

    @property
    def target(self) -> str:
        return (self.path or "/") + self.query

    @property
    def url(self) -> str:
        """All of it; the query may be secret."""
        port = "" if self.port == _HTTPS_PORT else f":{self.port}"
        return f"https://{self.host}{port}{self.target}"

    @property
    def segments(self) -> Sequence[str]:
        return [unquote(segment) for segment in self.path.split("/")[1:]]

    @property
    def name(self) -> str:
        return unquote(self.path.rpartition("/")[2])


Location = LocalFile | CloudObject | WebFile


def parse_location(text: str) -> Location:
    """What ``text`` names. Raises ``UnreadableSourceError``, which shows nothing of it."""
    if not text:
        raise UnreadableSourceError("the location is empty", hint=CORRECT)
    found = _SCHEME.match(text)
    if found is not None and found[1].lower() == "data":
        raise UnreadableSourceError(
            "the location is a data: URL, which holds the bytes", hint="set base64 for this property"
        )
    if len(text) > LONGEST:
        raise UnreadableSourceError(f"the location has more than {LONGEST:,} characters", hint=_INLINE)
    if not _is_utf8(text) or "\0" in text:
        raise UnreadableSourceError("the location has characters that no name can have", hint=CORRECT)
    if text.startswith("/"):
        return LocalFile(text)
    if found is None:
        if may_be_base64(text):
            raise UnreadableSourceError("the location is a relative path, or bytes as base64", hint=FOR_BYTES)
        raise UnreadableSourceError("the location is a relative path", hint=_FORMS)
    scheme, rest = found[1].lower(), text[found.end() :]
    if scheme == "file":
        return _file(rest)
    if scheme == "https":
        return _web(text)
    if scheme in CLOUDS and rest.startswith("//"):
        return _cloud(scheme, rest[2:])
    if scheme == "http":
        raise UnreadableSourceError("an http:// URL is not read, since anybody on the way may change it", hint=_FORMS)
    raise UnreadableSourceError("the location has a scheme that is not read", hint=_FORMS)


def redirected(location: WebFile, to: str) -> WebFile:
    """Where a server that was asked for ``location`` says the file is. Raises ``UnreadableSourceError``."""
    text = ""
    if not _CONTROL.search(to):
        with suppress(ValueError):
            # Header fields are read as Latin-1, whatever the server wrote them in.
            text = urljoin(location.url, to.encode("latin-1").decode())
    led = parse_location(text) if text else None
    if not isinstance(led, WebFile):
        raise UnreadableSourceError("the server redirects to what is not an https:// URL", hint=CORRECT)
    return led


def may_be_base64(text: str) -> bool:
    """Whether ``text`` could be the bytes of a file, and no location."""
    return _BASE64.fullmatch(text) is not None


def told(text: str) -> str | None:
    """``text`` as the ``source`` of a row: of a URL without user, query and fragment, which may be secret. None for
    what no row can hold, and what holds or may be bytes. Even what is not a location may be a URL."""
    if len(text) > LONGEST or not _is_utf8(text) or _HOLDS_BYTES.match(text) or may_be_base64(text):
        return None
    if _PATH.match(text):
        return text
    shown = re.split(r"[?#]", text, maxsplit=1)[0]
    return (_USER if _URL.match(shown) else _USER_ANYWHERE).sub(r"\1", shown)


def _file(rest: str) -> LocalFile:
    """``rest`` is what stands behind ``file:`` (RFC 8089)."""
    path = _decoded(rest)
    if path.startswith("//"):
        host, slash, below = path[2:].partition("/")
        path = slash + below if host.lower() in ("", "localhost") else ""
    if not path.startswith("/") or "\0" in path:
        raise UnreadableSourceError("the file: URL has no absolute path", hint="write file:///folder/name")
    return LocalFile(path)


def _cloud(scheme: str, rest: str) -> CloudObject:
    bucket, _, key = rest.partition("/")
    if not bucket or "@" in bucket or ":" in bucket:
        raise UnreadableSourceError("the location has no bucket, or what may be credentials in it", hint=CORRECT)
    if has_dots(key.split("/")):
        raise UnreadableSourceError("the location has a part '.' or '..'", hint=CORRECT)
    return CloudObject(scheme, bucket, key)


def _web(text: str) -> WebFile:
    try:
        parts = urlsplit(text)
        port, name = parts.port, parts.hostname or ""
        host = f"[{name}]" if ":" in name else name.encode("idna").decode() if not name.isascii() else name
    except (ValueError, UnicodeError):
        raise UnreadableSourceError("the location is not a valid URL", hint=CORRECT) from None
    if "@" in parts.netloc:
        raise UnreadableSourceError("a URL that holds a user is not read", hint=CORRECT)
    if _CONTROL.search(text) or not _HOST.fullmatch(host) or port == 0 or (parts.path and parts.path[0] != "/"):
        raise UnreadableSourceError("the location is not a valid URL", hint=CORRECT)
    # A server may take a backslash for a slash, and what stands behind a semicolon for no part of the name.
    if has_dots(part.partition(";")[0] for part in re.split(r"[/\\]", unquote(parts.path))):
        raise UnreadableSourceError("the location has a part '.' or '..'", hint=CORRECT)
    query = "?" + quote(parts.query, safe=_QUERY_SAFE) if parts.query else ""
    return WebFile(host, port or _HTTPS_PORT, quote(parts.path, safe=_PATH_SAFE), query)


def has_dots(segments: Iterable[str]) -> bool:
    """Whether a segment may mean another folder than the one it stands in."""
    return any(segment in (".", "..") for segment in segments)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _decoded(text: str) -> str:
    """``text`` without its percent escapes; nothing where it is not UTF-8 then."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return ""


_ENTRIES = "write an absolute path, https://host/path, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
_SECRET = re.compile(r"[:@?#]")
"""In an entry, behind its scheme: what a user, a password or a signature may stand beside."""
_SHOWN = 200
"""Characters of an entry in an error."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """``folders`` are absolute. An object is allowed where its key begins with the segments of one of ``clouds`` in its
    bucket, a URL where its path begins with those of one of ``web`` with its host and port."""

    folders: tuple[str, ...] = ()
    clouds: tuple[CloudObject, ...] = ()
    web: tuple[WebFile, ...] = ()

    @classmethod
    def parse(cls, entries: Sequence[str]) -> Allowed:
        """What ``file_sources`` says. Raises ``SettingError``."""
        locations = [_location_of(entry, number) for number, entry in enumerate(entries, 1)]
        return cls(
            tuple(location.path for location in locations if isinstance(location, LocalFile)),
            tuple(location for location in locations if isinstance(location, CloudObject)),
            tuple(location for location in locations if isinstance(location, WebFile)),
        )

    def require(self, location: CloudObject | WebFile) -> None:
        """Raises ``UnreadableSourceError`` where ``location`` is not allowed."""
        if isinstance(location, CloudObject):
            near = [each.segments for each in self.clouds if each.root == location.root]
        else:
            server = (location.host, location.port)
            near = [each.segments for each in self.web if (each.host, each.port) == server]
        if not any(_begins(location.segments, each) for each in near):
            raise not_allowed()


def not_allowed() -> UnreadableSourceError:
    """The error for what ``file_sources`` does not list."""
    return UnreadableSourceError(
        "its place is not allowed",
        hint="add its folder, bucket or host to file_sources, or set on_missing_file to record",
    )


def _begins(segments: Sequence[str], location: Sequence[str]) -> bool:
    # A slash at its end makes no difference to what is below it.
    wanted = location[:-1] if location and location[-1] == "" else location
    return list(segments[: len(wanted)]) == list(wanted)


def _location_of(entry: str, number: int) -> LocalFile | CloudObject | WebFile:
    try:
        location = parse_location(entry)
    except UnreadableSourceError as error:
        text = error.message.replace("the location", "it").replace("a location", "an entry")
        message = f"file_sources has an entry that means no place: {text}"
        raise SettingError(message, hint=_ENTRIES, entry=_shown(entry, number)) from None
    if isinstance(location, WebFile) and (location.query or "#" in entry):
        raise SettingError(
            "file_sources has a URL with a query or a fragment", hint=_ENTRIES, entry=_shown(entry, number)
        )
    return location


def _shown(entry: str, number: int) -> str:
    """Which entry is meant: its text, or its number where the text may hold a secret."""
    scheme, _, rest = entry.partition("://")
    return f"number {number}" if not entry or _SECRET.search(rest or scheme) else cut(entry, _SHOWN)

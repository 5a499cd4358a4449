"""What a lake root says: a folder, or a bucket or container with a prefix. Whatever could only be meant as something
else is refused, because a folder made by mistake would take data that nobody finds."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote_to_bytes

from singerlake.errors import SettingError

FORMS = "write a path, file:///folder, s3://bucket/prefix, gs://bucket/prefix or az://container/prefix"
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_ABFS = ("abfss", "abfs")
_NAMES_A_STORAGE = frozenset({"s3", "s3a", "s3n", "file", "gs", "gcs", "az", "azure", "wasb", "wasbs", *_ABFS})
_VARIABLE = re.compile(r"\A\$\w*|\$\{\w*\}?")
# C0, DEL, C1 and what Unicode ends a line by: a newline too many in a file of settings.
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_WINDOWS = re.compile(r"\A(?:[A-Za-z]:[\\/]|\\|[^/\\]*\\)")
_BUCKET = re.compile(r"[A-Za-z0-9._-]+")
_CONTAINER = re.compile(r"\$root|[a-z0-9](?:-?[a-z0-9]){2,62}")
"""https://learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata"""
_ACCOUNT_HOST = re.compile(r"[a-z0-9]{3,24}\.(?:dfs|blob)\.[a-z0-9.-]+")
_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")

OF_BUCKETS = frozenset({"s3", "gs", "az", *_ABFS})
"""Schemes of roots in a bucket or a container."""
_FORMS = {
    "file": "write file:///folder, or the path itself",
    "s3": "write s3://bucket/prefix",
    "gs": "write gs://bucket/prefix",
    "az": "write az://container/prefix",
    **dict.fromkeys(_ABFS, "write abfss://container@account.dfs.core.windows.net/prefix"),
}
"""Of URLs that are lake roots."""
_MEANT = {
    "s3a": _FORMS["s3"],
    "s3n": _FORMS["s3"],
    "gcs": _FORMS["gs"],
    **dict.fromkeys(("azure", "wasb", "wasbs"), _FORMS["az"]),
    **dict.fromkeys(("http", "https"), "write s3://bucket/prefix, and set s3_endpoint_url to the server"),
}
"""What to write in the place of others."""
_CLOUDS = {"s3": "S3", "gs": "Google Cloud Storage"}
"""Of schemes other than those of Azure."""
_CALLED = {
    "s3": ("bucket", "aws_access_key_id and its secret, or s3_endpoint_url"),
    "gs": ("bucket", "gcs_service_account_file, or gcs_endpoint_url"),
    **dict.fromkeys(("az", *_ABFS), ("container", "azure_account_key or azure_sas_token, or azure_endpoint_url")),
}
"""Scheme -> what holds the lake, and which settings say how to reach it."""


@dataclass(frozen=True, slots=True)
class FolderRoot:
    """A lake on a local disk; ``path`` may be relative to the working folder."""

    path: Path


@dataclass(frozen=True, slots=True)
class CloudRoot:
    """A lake in a bucket or a container; ``scheme`` is ``s3``, ``gs`` or ``az``. ``prefix`` may be empty, and neither
    begins nor ends with a slash. ``account_host`` is that of an ``abfss`` URL, as ``account.dfs.core.windows.net``."""

    scheme: str
    bucket: str
    prefix: str
    account_host: str | None = None


Root = FolderRoot | CloudRoot


def parse_root(text: str) -> Root:
    """What ``text`` names: a path, which ``~`` may begin; ``file:///folder``, with or without ``localhost``, and
    percent-encoded (RFC 8089); or a URL of a bucket or a container, as in ``FORMS``, or ``abfss``, taken as it stands.
    Schemes are read in any case. Raises ``SettingError``, which shows nothing that could be a password."""
    if not text or not text.strip():
        raise SettingError("lake_root is empty", hint=FORMS)
    _check(text)
    head, slash, rest = text.partition("/")
    scheme, colon, behind = head.partition(":")
    scheme = scheme.lower()
    if colon and ((slash and not behind) or scheme in _NAMES_A_STORAGE):
        return _url(scheme, behind, slash + rest)
    if colon and "@" in behind:
        raise SettingError("lake_root begins with what may be credentials", hint=_or_a_folder(FORMS))
    if scheme in _NAMES_A_STORAGE and rest.startswith("/"):
        raise SettingError(f"lake_root lacks the colon behind {scheme}", hint=_form(scheme))
    return _folder(_expanded(text))


def _url(scheme: str, behind: str, rest: str) -> Root:
    """``rest`` begins with the slash that follows ``scheme:``."""
    if scheme == "file" and not behind and rest.startswith("/"):
        return _file(rest)
    if scheme in _FORMS and not behind and rest.startswith("//"):
        place, _, prefix = rest[2:].partition("/")
        return _abfs(place, prefix) if scheme in _ABFS else _bucket(scheme, place, prefix)
    if scheme in _FORMS:
        raise SettingError(f"lake_root is not a complete {scheme} URL", hint=_form(scheme))
    if not _SCHEME.fullmatch(scheme):
        raise SettingError("lake_root has a colon like a URL, but no scheme", hint=_or_a_folder(FORMS))
    raise SettingError("lake_root has an unknown scheme", hint=_or_a_folder(_form(scheme)), scheme=scheme)


def _file(rest: str) -> FolderRoot:
    path = rest
    if rest.startswith("//"):
        host, slash, path = rest[2:].partition("/")
        if host.lower() not in ("", "localhost"):
            raise SettingError(
                "lake_root is a file URL that names another host", hint=f"two slashes begin a host: {_form('file')}"
            )
        path = slash + path
    if not path:
        raise SettingError("lake_root is a file URL without a folder", hint=_form("file"))
    if "?" in path or "#" in path:
        raise SettingError(
            "lake_root is a file URL with a query or a fragment", hint="write %3F for '?', %23 for '#', or the path"
        )
    if _PERCENT.search(path):
        raise SettingError(
            "lake_root is a file URL with a '%' without two hexadecimal digits after it", hint="write %25, or the path"
        )
    # What is not UTF-8 is kept, as Python keeps it in names of files.
    folder = os.fsdecode(unquote_to_bytes(path.encode("utf-8", "surrogateescape")))
    _check(folder)
    return _folder(Path("/" + folder.lstrip("/")))


def _folder(path: Path) -> FolderRoot:
    # A path drops the slashes behind it, and other processes open the lake by the path.
    if str(path) != str(path).rstrip():
        raise SettingError("lake_root names a folder that ends with white space", hint="rename the folder")
    return FolderRoot(path)


def _bucket(scheme: str, bucket: str, prefix: str) -> CloudRoot:
    _, credentials = _CALLED[scheme]
    if "@" in bucket or ":" in bucket:
        raise SettingError("lake_root holds credentials or a port", hint=f"{_form(scheme)}; set {credentials}")
    _check_bucket(scheme, bucket, prefix)
    return CloudRoot(scheme, bucket, prefix.strip("/"))


def _abfs(place: str, prefix: str) -> CloudRoot:
    container, at, host = place.partition("@")
    if not at or not _ACCOUNT_HOST.fullmatch(host.lower()):
        raise SettingError("lake_root is not a complete abfss URL", hint=_form("abfss"))
    _check_bucket("abfss", container, prefix)
    return CloudRoot("az", container, prefix.strip("/"), host.lower())


def _check_bucket(scheme: str, bucket: str, prefix: str) -> None:
    what, credentials = _CALLED[scheme]
    if not bucket:
        raise SettingError(f"lake_root names no {what}", hint=_form(scheme))
    if not (_CONTAINER if what == "container" else _BUCKET).fullmatch(bucket):
        cloud = _CLOUDS.get(scheme, "Azure")
        raise SettingError(f"lake_root has a {what} name that {cloud} does not allow", hint=_form(scheme))
    _, _, query = prefix.partition("?")
    if "=" in query:
        kind = {"s3": "an S3", "gs": "a gs"}.get(scheme, "an Azure")
        raise SettingError(f"lake_root is {kind} URL with a query", hint=f"{_form(scheme)}; set {credentials}")


def _check(text: str) -> None:
    """What neither a path nor a URL may hold."""
    if text != text.strip():
        raise SettingError("lake_root begins or ends with white space", hint="remove it")
    if _CONTROL.search(text):
        raise SettingError("lake_root holds a control character, such as a newline", hint="remove it")
    if variable := _VARIABLE.search(text):
        raise SettingError(
            "lake_root holds a variable that was not replaced",
            hint="set the variable, or write the path itself",
            variable=variable[0],
        )
    if _WINDOWS.match(text):
        raise SettingError("lake_root is a Windows path", hint=_or_a_folder("write / between folders, and no drive"))


def _expanded(text: str) -> Path:
    try:
        return Path(text).expanduser()
    except RuntimeError:
        raise SettingError(
            "lake_root begins with ~ and the home folder is not known", hint="write the whole path"
        ) from None


def _form(scheme: str) -> str:
    return _FORMS.get(scheme) or _MEANT.get(scheme, FORMS)


def _or_a_folder(hint: str) -> str:
    return f"{hint}; a folder of that name is ./name"

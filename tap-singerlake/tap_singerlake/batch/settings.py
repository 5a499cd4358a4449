"""The setting ``batch_config``, in singer-sdk's own shape (https://sdk.meltano.com/en/latest/batch.html)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from singerlake.errors import SettingError

FORMATS = ("jsonl", "parquet")
COMPRESSIONS = ("gzip", "none")
LARGEST = 100_000
"""Records of a batch where no setting says otherwise."""
_MEMBERS = {"encoding": ("format", "compression"), "storage": ("root", "prefix"), "batch_size": ()}
_PREFIX = re.compile(r"(?:[A-Za-z0-9_-][A-Za-z0-9._-]*/)*(?:[A-Za-z0-9_-][A-Za-z0-9._-]*)?\Z")
_SHAPE = 'write {"encoding": {"format": "jsonl", "compression": "gzip"}, "storage": {"root": "file:///tmp/batches"}}'

SETTING: dict[str, Any] = {
    "type": ["object", "null"],
    "title": "Batch configuration",
    "description": "Write records to files and send BATCH messages, for targets that know them, in the shape of "
    'singer-sdk: `{"encoding": {"format": "jsonl", "compression": "gzip"}, "storage": {"root": '
    '"s3://bucket/batches", "prefix": ""}, "batch_size": 100000}`. `format` is `jsonl` or `parquet`, `compression` '
    "`gzip` or `none`. Default: RECORD messages.",
}
"""JSON Schema of the setting."""


@dataclass(frozen=True, slots=True)
class BatchConfig:
    """Where batch files go and what they are. ``size`` is the most records of one."""

    root: str
    prefix: str = ""
    format: str = "jsonl"
    compression: str = "gzip"
    size: int = LARGEST

    @property
    def suffix(self) -> str:
        if self.format == "parquet":
            return ".parquet"
        return ".jsonl.gz" if self.compression == "gzip" else ".jsonl"


def batch_config(value: Any) -> BatchConfig | None:
    """What the setting says; None where it is not set. Raises ``SettingError``."""
    if isinstance(value, str) and value.strip():
        try:
            value = json.loads(value)
        except ValueError as error:
            raise SettingError(f"batch_config is not valid JSON: {error}", hint=_SHAPE) from error
    if value in (None, {}) or (isinstance(value, str) and not value.strip()):
        return None
    given = _checked(value)
    encoding, storage = given.get("encoding") or {}, given.get("storage") or {}
    root, prefix = storage.get("root"), storage.get("prefix") or ""
    if not isinstance(root, str) or not root.strip():
        raise SettingError("batch_config names no storage root", hint=_SHAPE)
    if not isinstance(prefix, str) or not _PREFIX.match(prefix):
        raise SettingError(
            "batch_config has a storage prefix that is not a plain beginning of a path",
            hint="use letters, digits, '-', '_', '.' and '/'",
        )
    kind = _one_of("format", encoding.get("format"), FORMATS)
    if kind == "parquet" and find_spec("pyarrow") is None:
        raise SettingError(
            "batch_config asks for parquet, and pyarrow is not installed",
            hint="run pip install 'singerlake[arrow]', or set format to jsonl",
        )
    size = given.get("batch_size")
    if size is not None and (not isinstance(size, int) or isinstance(size, bool) or size < 1):
        raise SettingError("batch_size of batch_config is not a whole number of 1 or more", hint="set it to one")
    return BatchConfig(
        root, prefix, kind, _one_of("compression", encoding.get("compression"), COMPRESSIONS), size or LARGEST
    )


def _checked(value: Any) -> Mapping[str, Any]:
    """The setting as an object whose members are known. Raises ``SettingError``."""
    if not isinstance(value, Mapping):
        raise SettingError("batch_config is not an object", hint=_SHAPE)
    unknown = [name for name in value if name not in _MEMBERS]
    for part in ("encoding", "storage"):
        inner = value.get(part)
        if inner is not None and not isinstance(inner, Mapping):
            raise SettingError(f"{part} of batch_config is not an object", hint=_SHAPE)
        unknown += [f"{part}.{name}" for name in inner or () if name not in _MEMBERS[part]]
    if unknown:
        raise SettingError(f"batch_config has a member that is not known: {unknown[0]!r}", hint=_SHAPE)
    return value


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> str:
    if value is None:
        return known[0]
    if value not in known:
        raise SettingError(f"batch_config asks for a {name} that is not known", hint=f"use one of: {', '.join(known)}")
    return str(value)

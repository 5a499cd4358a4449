"""The options of ``spark.read.format("singerlake")``, checked before anything is read."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any

import msgspec

from singerlake.arrow.plan.request import MessageKinds, Mode, Request, messages_of, mode_of
from singerlake.errors import SettingError, SingerlakeError
from singerlake.settings import QUERY_SETTINGS, STORAGE_SETTINGS
from singerlake.storage.roots import FolderRoot, parse_root

REQUIRED = {
    "path": "the lake's root, as lake_root of the plugins: a path, or s3://bucket/prefix and the like",
    "tap": "the tap_id of the stream",
    "stream": "the stream's name",
}
"""Name -> what it means."""
_TRUTH = {"true": True, "false": False}


_OF_A_TABLE = frozenset({"owner", "provider"})
"""What Spark puts among the options when it makes a table of its catalogue."""
_USE_A_VIEW = "use CREATE TEMPORARY VIEW name USING singerlake OPTIONS (path '...', tap '...', stream '...')"


def checked(given: Mapping[str, str], optional: Sequence[str], of_streams: Sequence[str] = ()) -> dict[str, str]:
    """The options under lower-case names, the required ones among them; beside those of S3, ``optional`` and
    ``of_streams`` none is known. Raises ``SettingError``, also where Spark makes or reads a table of its catalogue."""
    options = {name.lower(): value for name, value in given.items()}
    if options.keys() >= _OF_A_TABLE:
        raise SettingError("Spark would make a table from this, and read it without its options", hint=_USE_A_VIEW)
    known = (*REQUIRED, *optional, *STORAGE_SETTINGS)
    for name in options:
        if name not in {each.lower() for each in (*known, *of_streams)}:
            streams = f"; for streams also: {', '.join(of_streams)}" if of_streams else ""
            raise SettingError(f"option {name!r} is not known", hint=f"use one of: {', '.join(known)}{streams}")
    for name, meaning in REQUIRED.items():
        if not options.get(name, "").strip():
            hint = f"set .option({name!r}, ...): {meaning}"
            if not options:
                hint += f". A table of Spark's catalogue hands over none of its options: {_USE_A_VIEW}"
            raise SettingError(f"option {name!r} is missing", hint=hint)
    return options


@contextmanager
def named_as_options() -> Iterator[None]:
    """Errors within name the option ``path``, which for the plugins is the setting ``lake_root``."""
    try:
        yield
    except SingerlakeError as error:
        error.rename("lake_root", "path")
        raise


def storage(options: Mapping[str, str]) -> dict[str, Any]:
    """The options of S3 under the names of the plugins' settings. Raises ``SettingError``."""
    return {name: _of_kind(name, described, options) for name, described in STORAGE_SETTINGS.items() if name in options}


def _of_kind(name: str, described: Mapping[str, Any], options: Mapping[str, str]) -> Any:
    if "boolean" in described["type"]:
        return truth(name, options[name])
    if "integer" in described["type"]:
        return whole(name, options, default=described["default"], least=described["minimum"])
    return options[name]


@named_as_options()
def absolute(path: str) -> str:
    """A lake root without the working folder, which tasks do not share with the driver. Raises ``SettingError``."""
    root = parse_root(path)
    return os.path.abspath(root.path) if isinstance(root, FolderRoot) else path


def names(option: str, options: Mapping[str, str]) -> tuple[str, ...] | None:
    """Names between commas, or a JSON array of strings, for names that hold commas. Raises ``SettingError``."""
    text = options.get(option)
    if text is None:
        return None
    if text.lstrip().startswith("["):
        try:
            return msgspec.json.decode(text, type=tuple[str, ...])
        except msgspec.DecodeError as error:
            raise SettingError(
                f"option {option!r} is not a JSON array of strings: {error}", hint='write ["a","b"], or a,b'
            ) from None
    return tuple(name.strip() for name in text.split(",") if name.strip())


def text_of(value: Any) -> str:
    """What a caller in Python gives as the text of an option."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Sequence) and not isinstance(value, str):
        return json.dumps(list(value))
    return str(value)


def truth(name: str, text: str) -> bool:
    """``true`` or ``false``, in any case. Raises ``SettingError``."""
    value = _TRUTH.get(text.strip().lower())
    if value is None:
        raise SettingError(f"option {name!r} is neither true nor false", hint="write 'true' or 'false'")
    return value


def whole(name: str, options: Mapping[str, str], *, default: int, least: int, most: int | None = None) -> int:
    """A whole number in digits. Raises ``SettingError``."""
    text = options.get(name, str(default)).strip()
    if not (text.isascii() and text.isdigit()) or int(text) < least or (most is not None and int(text) > most):
        span = f"of {least} or more" if most is None else f"from {least} to {most}"
        raise SettingError(f"option {name!r} is not a whole number {span}", hint=f"write digits, as {default}")
    return int(text)


OPTIONAL = (*(each.name for each in fields(Request)), "pushdown")
LIMITS = ("maxRecordsPerTrigger", "maxFilesPerTrigger", "maxBytesPerTrigger")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most messages, files and raw bytes of a batch, all of them at once; None: no limit. Each is 1 or more."""

    records: int | None = None
    files: int | None = None
    bytes: int | None = None

    def __bool__(self) -> bool:
        return (self.records, self.files, self.bytes) != (None, None, None)


@dataclass(frozen=True)
class ReadOptions:
    """Where and what to read. ``path`` is the lake root, absolute where it is local; ``storage`` holds the options of
    storages and of the table with newer states, as the plugins name them, secrets among them, and is not shown."""

    path: str
    tap: str
    stream: str
    request: Request = field(default_factory=Request)
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)
    limits: Limits = field(default_factory=Limits)
    pushdown: bool = False

    def __post_init__(self) -> None:
        if self.pushdown and not self.request.metadata:
            raise SettingError(
                "option 'pushdown' is set without 'metadata'",
                hint="set .option('metadata', 'true'): only filters on the columns it adds can be pushed down",
            )


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options as Spark passes them, names in any case. Raises ``SettingError`` naming the option."""
    options = checked(given, (*OPTIONAL, *QUERY_SETTINGS), LIMITS)
    return ReadOptions(
        path=absolute(options["path"]),
        tap=options["tap"],
        stream=options["stream"],
        request=Request(
            from_version=_version("from_version", options),
            versions=names("versions", options),
            from_offset=_offset("from_offset", options),
            to_offset=_offset("to_offset", options),
            as_of=_text("as_of", options),
            from_commit=_text("from_commit", options),
            lineage=options.get("lineage"),
            columns=names("columns", options),
            messages=messages_of(options.get("messages", MessageKinds.RECORDS.value)),
            mode=mode_of(options.get("mode", Mode.PERMISSIVE.value)),
            partition_bytes=_number(
                "partition_bytes", options, "not a positive number of bytes", "write it in digits, as 67108864"
            ),
            cores=_number("cores", options, "not a positive number", "write it in digits, as 16"),
            **{name: truth(name, options.get(name, "false")) for name in _FLAGS},
        ),
        storage={**storage(options), **{name: options[name] for name in QUERY_SETTINGS if name in options}},
        limits=Limits(
            records=_limit("maxRecordsPerTrigger", options),
            files=_limit("maxFilesPerTrigger", options),
            bytes=_limit("maxBytesPerTrigger", options),
        ),
        pushdown=truth("pushdown", options.get("pushdown", "false")),
    )


def _version(option: str, options: Mapping[str, str]) -> str | None:
    name = options.get(option)
    if name is not None and not name.strip():
        raise SettingError(f"option {option!r} names nothing", hint="name a version, or leave it out to read all")
    return name.strip() if name else None


def _text(option: str, options: Mapping[str, str]) -> str | None:
    text = options.get(option)
    return None if text is None else text.strip()


_FLAGS = ("metadata", "record", "files", "variant", "skip_expired")
_MOST_DIGITS = 18
"""Of a number, which no offset and no size has more of; ``int`` takes thousands, and then refuses."""


def _offset(option: str, options: Mapping[str, str]) -> int | None:
    return _number(option, options, "no offset", "write a record offset in digits, as 120000", least=0)


def _limit(option: str, options: Mapping[str, str]) -> int | None:
    return _number(option, options, "not a positive number", "write it in digits, as 1000000")


def _number(option: str, options: Mapping[str, str], wrong: str, hint: str, *, least: int = 1) -> int | None:
    text = options.get(option.lower())
    if text is None:
        return None
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS) or int(digits) < least:
        raise SettingError(f"option {option!r} is {wrong}", hint=hint)
    return int(digits)

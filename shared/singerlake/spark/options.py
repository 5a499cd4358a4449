"""The options of ``spark.read.format("singerlake")``, checked before anything is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from singerlake.arrow.plan.request import MessageKinds, Mode, Request, messages_of, mode_of
from singerlake.errors import SettingError
from singerlake.settings import QUERY_SETTINGS
from singerlake.spark.option_values import absolute, checked, names, storage, truth

OPTIONAL = (
    "from_version",
    "versions",
    "from_offset",
    "to_offset",
    "as_of",
    "from_commit",
    "lineage",
    "columns",
    "metadata",
    "record",
    "files",
    "messages",
    "mode",
    "variant",
    "skip_expired",
    "partition_bytes",
    "cores",
    "pushdown",
)
LIMITS = (
    "maxRecordsPerTrigger",
    "maxFilesPerTrigger",
    "maxBytesPerTrigger",
)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """The most messages, files and raw bytes of a batch, all of them at once; None: no limit. Each is 1 or more."""

    records: int | None = None
    files: int | None = None
    bytes: int | None = None

    def __bool__(self) -> bool:
        return (self.records, self.files, self.bytes) != (None, None, None)

    def within(self, other: Limits) -> Limits:
        """The stricter of both, limit by limit."""
        return Limits(
            records=_least(self.records, other.records),
            files=_least(self.files, other.files),
            bytes=_least(self.bytes, other.bytes),
        )


def _least(one: int | None, other: int | None) -> int | None:
    given = [value for value in (one, other) if value is not None]
    return min(given) if given else None


@dataclass(frozen=True)
class ReadOptions:
    """Where and what to read. ``path`` is the lake root, absolute where it is local; ``storage`` holds the
    options of storages, and of the table that has newer states, under the names of the plugins' settings, secrets
    among them, and is not shown."""

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
            metadata=truth("metadata", options.get("metadata", "false")),
            record=truth("record", options.get("record", "false")),
            files=truth("files", options.get("files", "false")),
            messages=messages_of(options.get("messages", MessageKinds.RECORDS.value)),
            variant=truth("variant", options.get("variant", "false")),
            skip_expired=truth("skip_expired", options.get("skip_expired", "false")),
            mode=mode_of(options.get("mode", Mode.PERMISSIVE.value)),
            partition_bytes=_positive(
                "partition_bytes", options, "not a positive number of bytes", "write it in digits, as 67108864"
            ),
            cores=_positive("cores", options, "not a positive number", "write it in digits, as 16"),
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


_MOST_DIGITS = 18
"""Of a number, which no offset and no size has more of; ``int`` takes thousands, and then refuses."""


def _offset(option: str, options: Mapping[str, str]) -> int | None:
    return _number(option, options, "no offset", "write a record offset in digits, as 120000")


def _limit(option: str, options: Mapping[str, str]) -> int | None:
    return _positive(option, options, "not a positive number", "write it in digits, as 1000000")


def _positive(option: str, options: Mapping[str, str], wrong: str, hint: str) -> int | None:
    number = _number(option, options, wrong, hint)
    if number == 0:
        raise SettingError(f"option {option!r} is {wrong}", hint=hint)
    return number


def _number(option: str, options: Mapping[str, str], wrong: str, hint: str) -> int | None:
    text = options.get(option.lower())
    if text is None:
        return None
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS):
        raise SettingError(f"option {option!r} is {wrong}", hint=hint)
    return int(digits)

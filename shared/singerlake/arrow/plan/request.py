"""What a reader wants of a stream: which messages, which columns, and what becomes of a value that does not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from singerlake.arrow.schema.columns import Struct
from singerlake.arrow.schema.own import ATTACHED_FILES, MESSAGE_TYPE, METADATA, RECORD_TEXT, RESCUED
from singerlake.errors import SettingError


class Mode(StrEnum):
    """What becomes of a value that its column cannot hold exactly; the names are those of Spark's own readers."""

    PERMISSIVE = "PERMISSIVE"
    """Null in its column, and kept in ``_rescued_data``."""
    FAILFAST = "FAILFAST"
    """An error that names file, line, column and value."""
    DROPMALFORMED = "DROPMALFORMED"
    """Its row is left out; a warning at the end counts them."""


class MessageKinds(StrEnum):
    """Which messages become rows."""

    RECORDS = "records"
    ALL = "all"
    """ACTIVATE_VERSION messages too, as rows in which all columns of the records are null."""


def messages_of(text: str) -> MessageKinds:
    """What that word means, in any case. Raises ``SettingError`` listing them."""
    try:
        return MessageKinds(text.strip().lower())
    except ValueError:
        known = " or ".join(each.value for each in MessageKinds)
        raise SettingError(f"option 'messages' is not {known}", hint=f"set it to {known}") from None


def mode_of(text: str) -> Mode:
    """The mode of that name, in any case. Raises ``SettingError`` listing them."""
    try:
        return Mode(text.strip().upper())
    except ValueError:
        known = ", ".join(mode.value for mode in Mode)
        raise SettingError(f"option 'mode' is not one of {known}", hint=f"set it to one of {known}") from None


@dataclass(frozen=True, kw_only=True)
class Request:
    """``from_version``: everything from the first appearance of that version on, whatever its schema; ``versions``:
    only these (labels, hashes or path segments). ``from_offset`` and ``to_offset`` are record offsets, the second one
    exclusive; ``lineage`` is the one that they are of (None: any). ``from_commit`` and ``as_of`` are names of commits
    that stand for a beginning and an end. ``columns`` are names in the order wanted (None: all). ``variant``: JSON of
    no declared type becomes a variant and not text. ``record`` adds the records' text, ``files`` the files that are
    attached to them.
    ``skip_expired``: where messages from ``from_offset`` on expired, what is left of them.
    ``partition_bytes`` are raw bytes of a partition (None: what suits the amount that is read and ``cores``, those that
    partitions are read on; None: as many as this process has).

    Raises ``SettingError`` where one of them makes no sense, or two exclude each other.
    """

    from_version: str | None = None
    versions: tuple[str, ...] | None = None
    from_offset: int | None = None
    to_offset: int | None = None
    as_of: str | None = None
    from_commit: str | None = None
    lineage: str | None = None
    columns: tuple[str, ...] | None = None
    metadata: bool = False
    record: bool = False
    files: bool = False
    messages: MessageKinds = MessageKinds.RECORDS
    mode: Mode = Mode.PERMISSIVE
    variant: bool = False
    skip_expired: bool = False
    partition_bytes: int | None = None
    cores: int | None = None

    def __post_init__(self) -> None:
        if self.from_version is not None and self.from_offset is not None:
            raise SettingError(
                "options 'from_version' and 'from_offset' exclude each other", hint="both say where to begin; keep one"
            )
        _check_commits(self)
        for name, value in (("from_offset", self.from_offset), ("to_offset", self.to_offset)):
            if value is not None and not isinstance(value, int):
                raise SettingError(f"option {name!r} is not a whole number", hint="offsets are integers, from 0 on")
            if value is not None and value < 0:
                raise SettingError(f"option {name!r} is negative", hint="offsets count from 0")
        if self.from_offset is not None and self.to_offset is not None and self.to_offset < self.from_offset:
            raise SettingError(
                f"option 'to_offset' ({self.to_offset}) is below 'from_offset' ({self.from_offset})",
                hint="messages from offset from_offset to before to_offset are read",
            )
        if self.messages is MessageKinds.ALL and not self.metadata:
            raise SettingError(
                "option 'messages' is 'all' without 'metadata'",
                hint="set 'metadata' to true: its columns show an ACTIVATE_VERSION message's version and offset",
            )
        if self.lineage is not None and not (isinstance(self.lineage, str) and self.lineage.strip()):
            raise SettingError(
                "option 'lineage' names nothing",
                hint="set it to the stream's lineage, as 'singerlake versions --json' prints it, or leave it out",
            )
        _distinct("versions", self.versions)
        _distinct("columns", self.columns)

    def between(self, begin: int | None, end: int | None) -> Request:
        """The same with the offsets that ``from_commit`` and ``as_of`` stand for, None where there is none. Raises
        ``SettingError`` where another offset that is asked for is on the wrong side of them."""
        if self.from_offset is not None and end is not None and self.from_offset > end:
            raise SettingError(
                f"option 'from_offset' is {self.from_offset}, and as of commit {self.as_of} the stream ends at {end}",
                hint="set it to that offset or an earlier one",
            )
        if self.to_offset is not None and begin is not None and self.to_offset < begin:
            raise SettingError(
                f"option 'to_offset' is {self.to_offset}, and behind commit {self.from_commit} the stream begins at "
                f"{begin}",
                hint="set it to that offset or a later one",
            )
        if begin is not None and end is not None:
            begin = min(begin, end)
        return replace(
            self,
            as_of=None,
            from_commit=None,
            from_offset=self.from_offset if begin is None else begin,
            to_offset=self.to_offset if end is None else end,
        )


def request_of(
    *,
    columns: Sequence[str] | None,
    versions: Sequence[str] | None,
    messages: str,
    mode: str,
    **others: Any,
) -> Request:
    """A request from what a caller in Python gives, of any type. Raises ``SettingError``."""
    for name, value in (("columns", columns), ("versions", versions)):
        if isinstance(value, str):
            raise SettingError(f"{name} is one text", hint=f"give a list of names, as [{value!r}]")
    for name in ("metadata", "record", "files", "skip_expired"):
        if not isinstance(others[name], bool):
            raise SettingError(f"{name} is neither True nor False", hint="set it to one of them")
    return Request(
        columns=None if columns is None else tuple(columns),
        versions=None if versions is None else tuple(versions),
        messages=messages_of(str(messages)),
        mode=mode_of(str(mode)),
        **others,
    )


def _check_commits(request: Request) -> None:
    for name, value in (("as_of", request.as_of), ("from_commit", request.from_commit)):
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise SettingError(
                f"option {name!r} names nothing",
                hint="set it to the name of a commit, as 'singerlake ls --commits' prints it, or leave it out",
            )
    beginnings = [name for name in ("from_version", "from_offset", "from_commit") if getattr(request, name) is not None]
    if len(beginnings) > 1 and request.from_commit is not None:
        raise SettingError(
            f"options {beginnings[0]!r} and 'from_commit' exclude each other", hint="both say where to begin; keep one"
        )
    if request.as_of is not None and request.to_offset is not None:
        raise SettingError("options 'as_of' and 'to_offset' exclude each other", hint="both say where to end; keep one")
    if request.as_of is not None and request.from_commit is not None and request.from_commit > request.as_of:
        raise SettingError(
            f"option 'from_commit' ({request.from_commit}) is later than 'as_of' ({request.as_of})",
            hint="messages behind from_commit up to as_of are read",
        )


def _distinct(name: str, values: tuple[str, ...] | None) -> None:
    if values is None:
        return
    if not values:
        raise SettingError(f"option {name!r} names nothing", hint="name at least one, or leave it out")
    twice = next((value for index, value in enumerate(values) if value in values[:index]), None)
    if twice is not None:
        raise SettingError(f"option {name!r} names {twice!r} twice", hint="name it once")


def own_columns(request: Request) -> Struct:
    """Those that a request is about, in the order in which they stand behind the records' own."""
    fields = METADATA.fields if request.metadata else ()
    if request.messages is MessageKinds.ALL:
        fields += (MESSAGE_TYPE,)
    if request.record:
        fields += (RECORD_TEXT,)
    if request.files:
        fields += (ATTACHED_FILES,)
    if request.mode is Mode.PERMISSIVE:
        fields += (RESCUED,)
    return Struct(fields)

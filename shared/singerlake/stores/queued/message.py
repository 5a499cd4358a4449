"""What a writer sends to a queue, and what a committer takes for that.

Who commits believes only what it can check: keys are made of a message's names, and never read from it.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

import msgspec

from singerlake.clock import parse_timestamp
from singerlake.errors import SingerlakeError
from singerlake.format import layout
from singerlake.format.decoders import prepare_decoders
from singerlake.format.exact_json import ascii_json, decode, encode
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.transactions import AddFiles, Transaction
from singerlake.storage.port import Storage

FORMAT = 1
LARGEST = 200_000
"""Bytes of a message from which on its transaction is an object instead: a queue takes 256 KiB."""

_UNREADABLE = (msgspec.DecodeError, RecursionError)
"""What comes of a text that is not a message, the second one of one that is too deep."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Received:
    """A message as it was given out. ``id`` is the queue's, ``receipt`` what deletes it."""

    id: str
    body: str = field(repr=False)
    receipt: str = field(default="", repr=False)


class Queue(Protocol):
    """A queue for many threads. Raises ``AccessDeniedError``, ``SettingError``, ``StorageUnavailableError``."""

    @property
    def name(self) -> str:
        """What the log calls it: its URL, which holds no secret."""

    def send(self, body: str, *, group: str, deduplication: str) -> None:
        """Put a message behind its ``group``, perhaps also if this raises. A second ``deduplication`` may be
        dropped."""

    def receive(self, most: int, *, wait: int) -> Sequence[Received]:
        """Up to ``most`` messages, after up to ``wait`` seconds; those of their groups wait until these are deleted."""

    def delete(self, messages: Sequence[Received]) -> Sequence[Received]:
        """Delete messages; gives those that could not be, which will be given out again."""


class CommitMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One transaction to be committed: a message of section 11.7 of ``shared/docs/format``."""

    format: int
    lake_id: str
    tap: str
    stream: str
    store: str
    id: str
    until: str
    behind: str | None = None
    transaction: Transaction | None = None
    sha256: str | None = None


class _MessageHead(msgspec.Struct):
    format: object = None


@dataclass(frozen=True, slots=True)
class Dropped:
    """Why a message is dropped."""

    reason: str


@dataclass(frozen=True, slots=True)
class Wanted:
    """A transaction that is to be committed before ``until``, behind the file ``behind``."""

    transaction: Transaction
    until: datetime
    behind: str | None = None

    @property
    def change(self) -> AddFiles:
        change = self.transaction.change
        assert isinstance(change, AddFiles)
        return change


def to_text(message: CommitMessage) -> str:
    """The message as it is sent: JSON in ASCII."""
    return ascii_json(message)


def read_message(text: str, lake_id: str) -> CommitMessage | Dropped:
    """A message that a writer of this lake sent. What is wrong with it is told without its content."""
    body = text.encode("utf-8", "replace")
    try:
        written = decode(body, _MessageHead).format
    except _UNREADABLE:
        return Dropped("it is not a JSON object")
    if written != FORMAT or isinstance(written, bool):
        known = isinstance(written, int) and not isinstance(written, bool) and written > FORMAT
        return Dropped(f"it is of format {written}, this version knows {FORMAT}" if known else "it has no known format")
    try:
        message = decode(body, CommitMessage)
    except _UNREADABLE:
        return Dropped(
            "it is not a message of its format, or its transaction is of a kind that this version does not know"
        )
    if message.lake_id != lake_id:
        return Dropped("it is of another lake")
    if not layout.is_queued_id(message.id) or parse_timestamp(message.until) is None:
        return Dropped("its id or its time is not valid")
    if (message.transaction is None) == (message.sha256 is None):
        return Dropped("it has no transaction, or two")
    try:
        layout.stream_prefix(message.tap, message.stream)
    except SingerlakeError:
        return Dropped("a lake cannot have its names")
    return message


def read_body(body: bytes, message: CommitMessage) -> Transaction | Dropped:
    """The transaction in the object of a message."""
    if hashlib.sha256(body).hexdigest() != message.sha256:
        return Dropped("its object has another checksum")
    try:
        return decode(body, Transaction)
    except _UNREADABLE:
        return Dropped("its object is not a transaction that this version knows")


def wanted(message: CommitMessage, transaction: Transaction) -> Wanted | Dropped:
    """The transaction of a message as it may be committed."""
    until = parse_timestamp(message.until)
    assert until is not None
    if transaction.id != message.id:
        return Dropped("its transaction has another id")
    if not isinstance(transaction.change, AddFiles) or not transaction.change.files:
        return Dropped("its transaction does not add files")
    if not all(map(_is_sound, transaction.change.files)):
        return Dropped("it adds a file that no stream can have")
    return Wanted(transaction, until, message.behind)


def group_of(table_id: str, share: int | None) -> str:
    """The group of the messages of a stream, or of one share of them: 128 characters at most, whatever its names."""
    digest = hashlib.sha256(table_id.encode("utf-8", "surrogatepass")).hexdigest()
    return digest if share is None else f"{digest}-{share}"


def _is_sound(file: NewFile) -> bool:
    """Whether readers would take a file: one that they refuse would make the whole state unreadable."""
    folder, _, name = file.path.partition("/")
    own = layout.from_segment(folder) is not None and bool(name) and "/" not in name and name[0] not in "._"
    counts = (file.messages, file.records, file.erased, file.bytes, file.raw_bytes)
    members = sum(messages for _, messages in file.members)
    return bool(file.id) and own and file.messages > 0 and min(counts) >= 0 and members == file.messages


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """Why a committer left a transaction to its writer."""

    format: int = 1
    id: str
    reason: str


def put_body(storage: Storage, tap: str, stream: str, transaction: Transaction) -> str:
    """Keep a transaction beside its stream's data; gives the checksum of what was written."""
    body = encode(transaction)
    storage.put(layout.queued_body_key(tap, stream, transaction.id), body)
    return hashlib.sha256(body).hexdigest()


def get_body(storage: Storage, message: CommitMessage) -> Transaction | Dropped:
    """The transaction that a message has as an object."""
    stored = storage.get(layout.queued_body_key(message.tap, message.stream, message.id))
    return Dropped("its object is not there") if stored is None else read_body(stored.body, message)


def refuse(storage: Storage, tap: str, stream: str, id: str, reason: str) -> None:
    """Tell a writer not to wait."""
    storage.put(layout.refusal_key(tap, stream, id), encode(Refusal(id=id, reason=reason)))


def is_refused(storage: Storage, tap: str, stream: str, id: str) -> bool:
    """Whether a writer was told so. Who says it need not be believed: the writer then commits by itself."""
    return storage.head(layout.refusal_key(tap, stream, id)) is not None


def remove_objects(storage: Storage, tap: str, stream: str, id: str, *, body: bool, refusal: bool) -> None:
    """Delete what is known to be there of a settled transaction. What cannot be is left to a collector."""
    keys = [layout.queued_body_key(tap, stream, id)] if body else []
    keys += [layout.refusal_key(tap, stream, id)] if refusal else []
    for key in keys:
        try:
            storage.delete(key)
        except SingerlakeError as error:
            logger.debug("%s is left to a collector: %s", key, error)


prepare_decoders(CommitMessage, _MessageHead)

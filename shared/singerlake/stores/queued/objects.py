"""What belongs to queued transactions on storage: those that are too large for a message, and refusals."""

from __future__ import annotations

import hashlib
import logging

import msgspec

from singerlake.errors import SingerlakeError
from singerlake.format import layout
from singerlake.format.exact_json import encode
from singerlake.format.state.transactions import Transaction
from singerlake.storage.port import Storage
from singerlake.stores.queued.message import CommitMessage, Dropped, read_body

logger = logging.getLogger(__name__)


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


def remove(storage: Storage, tap: str, stream: str, id: str, *, body: bool, refusal: bool) -> None:
    """Delete what is known to be there of a settled transaction. What cannot be is left to a collector."""
    keys = [layout.queued_body_key(tap, stream, id)] if body else []
    keys += [layout.refusal_key(tap, stream, id)] if refusal else []
    for key in keys:
        try:
            storage.delete(key)
        except SingerlakeError as error:
            logger.debug("%s is left to a collector: %s", key, error)

"""What ``CloudStorage`` asks of one cloud: single requests. Waiting, trying again and lost replies are not its matter.

Keys are those of the port; a driver puts the lake's prefix before them, and writes them as the cloud takes names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Protocol, TypeVar

from singerlake.errors import SingerlakeError
from singerlake.storage.lost_replies import DriverErrors
from singerlake.storage.port import Entry, Part

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Fetched:
    """Bytes of an object, and what it was when they were read; ``size`` is that of the whole."""

    body: bytes
    size: int
    etag: str
    last_modified: datetime


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a listing. ``folders`` end in ``/``. ``token`` asks for the next page; None: there is none."""

    entries: Sequence[Entry]
    folders: Sequence[str]
    token: str | None


class Ask(Protocol):
    """Sends a request that may be repeated, also if it took effect, until it is answered. Raises this package's errors,
    of ``key`` where the request only reads, of another object than the one that is written."""

    def __call__(self, request: Callable[[], Result], /, *, key: str | None = None) -> Result: ...


class Driver(Protocol):
    """One bucket or container of a cloud, safe to share between threads; nothing is sent before the first call.

    Methods without an ``Ask`` send one request and raise the library's errors. Without a bucket, nothing is absent.
    """

    @property
    def url(self) -> str:
        """The lake root as a person would write it, without credentials."""

    @property
    def identity(self) -> tuple[str, str]:
        """What tells this bucket from all others that a process may know: the server, and the bucket's name."""

    @property
    def errors(self) -> DriverErrors:
        """What the library's errors say."""

    @property
    def lists_in_order(self) -> bool:
        """Whether pages, and folders among the entries of a page, come in the byte order of the port's keys."""

    @property
    def most_deleted(self) -> int:
        """How many keys ``delete_many`` takes."""

    def translate(self, error: Exception, **context: object) -> SingerlakeError:
        """This package's error for one of the library's, without secrets. Others are raised as they are."""

    def get(self, key: str) -> Fetched | None:
        """The whole object, or None where there is none."""

    def get_range(self, key: str, start: int, length: int) -> Fetched | None:
        """Up to ``length`` bytes from ``start``: none where the object ends before. None where there is none."""

    def head(self, key: str) -> Entry | None:
        """The object's entry, or None where there is none."""

    def put(self, key: str, body: bytes, *, if_absent: bool, if_match: str | None) -> str:
        """Write an object in one request; gives its ETag. A condition that does not hold is an error that means
        ``REFUSED``, ``if_match`` on an absent key among them."""

    def delete(self, key: str, *, if_match: str | None) -> None:
        """Remove an object; one that is not there is no error. ``if_match`` as in ``put``."""

    def delete_many(self, keys: Sequence[str]) -> Sequence[str]:
        """Remove objects in one request; gives those that may still be there."""

    def page(self, prefix: str, *, folders: bool, start_after: str, token: str | None) -> Page:
        """A page of the keys that begin with ``prefix``. With ``folders``, keys that have a ``/`` behind ``prefix`` are
        told by their folder alone. Keys up to ``start_after`` may be among them where the cloud cannot begin there."""

    def stream(self, key: str, start: int, ask: Ask) -> BinaryIO | None:
        """A stream of an object's bytes from ``start`` on, by fewer requests than one a range. None: there is none."""
        return None

    def upload(self, key: str, path: Path, size: int, ask: Ask, ready: Callable[[], object]) -> bool:
        """Copy a closed file of ``size`` bytes to a key that nobody else writes, whole or not at all. ``ready`` is
        called once, before a byte of it is sent. True where the answers prove that storage has all of it."""

    def compose(self, key: str, pieces: Sequence[bytes | Part], ask: Ask) -> None:
        """Make an object of bytes and parts of others, whole or not at all. Raises ``MissingFileError``."""


def unless_absent(is_absent: Callable[[Exception], bool], request: Callable[[], Result]) -> Result | None:
    """What ``request`` gives; None where it fails since there is no such object, as ``is_absent`` says."""
    try:
        return request()
    except Exception as error:
        if is_absent(error):
            return None
        raise

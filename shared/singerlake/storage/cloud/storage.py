"""The storage port over the single requests of a cloud's driver: waiting, lost replies, conditions, checks of sizes,
listings in the byte order of keys. A cloud may have another order, as Azure with a hierarchical namespace: what is
short enough to be held is sorted whole, what is longer is listed folder by folder. Python's order of texts is that of
their UTF-8."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO, TypeVar

from singerlake.clock import IdSource
from singerlake.errors import MissingFileError, SingerlakeError, StorageUnavailableError
from singerlake.storage.cloud.driver import Driver, Fetched, Page
from singerlake.storage.keys import check_conditions, check_key, check_prefix
from singerlake.storage.lost_replies import Write, send_until_answered, send_until_known
from singerlake.storage.patience import Patience
from singerlake.storage.port import Beginning, Capabilities, Entry, Folder, Part, Refused, Storage, Stored, Written
from singerlake.storage.probe import Proved
from singerlake.storage.streams import joined, window

Result = TypeVar("Result")

_known: dict[tuple[type[Driver], str, str], Proved] = {}
"""By the kind of driver, too: two clouds may have buckets of one name."""
_known_lock = threading.Lock()

HELD = 50_000
"""Entries that are sorted in memory: some 20 MB."""

Pages = Callable[[str, bool, str], Iterator[Page]]
"""All pages of a prefix, by folders or not, after a key."""

RANGE_BYTES = 8 << 20
"""Bytes of one request: few requests, little memory."""


class CloudStorage(Storage):
    """A ``Storage`` in a bucket of a cloud, safe to share between threads; nothing is sent before the first call.
    ``patience`` is that with the server. ``probe_max_wait`` is how many seconds, by the setting ``probe_setting``, a
    probe asks again whose answers prove nothing."""

    def __init__(
        self,
        driver: Driver,
        patience: Patience,
        *,
        probe_max_wait: float,
        probe_setting: str = "patience_seconds",
        ids: IdSource,
    ) -> None:
        self._driver = driver
        self._patience = patience
        self._probe_max_wait = probe_max_wait
        self._probe_setting = probe_setting
        self._ids = ids
        with _known_lock:
            self._proved = _known.setdefault((type(driver), *driver.identity), Proved(driver.identity[0]))

    @property
    def url(self) -> str:
        return self._driver.url

    def capabilities(self) -> Capabilities:
        return self._proved.of(
            self,
            clock=self._patience.clock,
            ids=self._ids,
            max_wait=self._probe_max_wait,
            setting=self._probe_setting,
        )

    def get(self, key: str) -> Stored | None:
        check_key(key)
        found = self._ask(key, lambda: self._driver.get(key))
        return Stored(found.body, found.etag, found.last_modified) if found is not None else None

    def head(self, key: str) -> Entry | None:
        check_key(key)
        return self._ask(key, lambda: self._driver.head(key))

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        check_key(key)
        check_conditions(if_absent, if_match)

        def send() -> Written | Refused:
            return Written(self._driver.put(key, body, if_absent=if_absent, if_match=if_match))

        def look() -> Written | Refused | None:
            stored = self.get(key)
            if stored is not None and stored.body == body:
                return Written(stored.etag)
            if if_absent:
                return Refused() if stored is not None else None
            if if_match is not None:
                return Refused() if stored is None or stored.etag != if_match else None
            return None

        conditional = if_absent or if_match is not None
        outcome = self._until_known(key, Write[Written | Refused](send, look, Refused(), conditional))
        if isinstance(outcome, Refused):
            self._proved.refused()
        return outcome

    def upload(self, key: str, path: Path, ready: Callable[[], object] = lambda: None) -> int:
        """As the port says. A failure may leave an object that no manifest lists."""
        check_key(key)
        size = path.stat().st_size
        is_begun = False

        def begin() -> None:
            nonlocal is_begun
            ready()
            is_begun = True

        try:
            is_whole = self._driver.upload(key, path, size, self._asker(key), begin)
        except StorageUnavailableError:
            if is_begun and self._arrived(key, size) is not None:
                return size
            raise
        return size if is_whole else self._checked(key, size).size

    def compose(self, key: str, pieces: Sequence[bytes | Part]) -> Entry:
        check_key(key)
        for piece in pieces:
            if isinstance(piece, Part):
                check_key(piece.key)
        size = sum(len(piece) if isinstance(piece, bytes) else piece.size for piece in pieces)
        try:
            self._driver.compose(key, pieces, self._asker(key))
        except StorageUnavailableError:
            entry = self._arrived(key, size)
            if entry is not None:
                return entry
            raise
        return self._checked(key, size)

    def read_range(self, key: str, start: int, length: int) -> bytes:
        check_key(key)
        if length <= 0:
            if self.head(key) is None:
                raise self._missing(key)
            return b""
        return self._range(key, start, length).body

    def beginning(self, key: str, length: int) -> Beginning:
        check_key(key)
        found = self._range(key, 0, max(length, 1))
        return Beginning(found.body[: max(length, 0)], found.size)

    def open(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        check_key(key)
        stream = self._driver.stream(key, start, self._asker(key))
        if stream is None:
            return open_ranges(lambda at, length: self.read_range(key, at, length), start, end)
        return stream if end is None else window(stream, end - start)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[Entry]:
        check_prefix(prefix)
        if not self._driver.lists_in_order:
            yield from in_order(self._pages, prefix, start_after)
            return
        for page in self._pages(prefix, False, start_after):
            yield from (entry for entry in page.entries if entry.key > start_after)

    def list_folder(self, prefix: str) -> Folder:
        check_prefix(prefix)
        entries: list[Entry] = []
        folders: list[str] = []
        for page in self._pages(prefix, True, ""):
            entries += page.entries
            folders += (name[len(prefix) :] for name in page.folders)
        entries.sort(key=lambda entry: entry.key)
        return Folder(entries=tuple(entries), folders=tuple(sorted(folders)))

    def delete(self, key: str, *, if_match: str | None = None) -> bool:
        check_key(key)

        def send() -> bool:
            self._driver.delete(key, if_match=if_match)
            return True

        def look() -> bool | None:
            entry = self.head(key)
            if entry is None:
                return True
            return False if if_match is not None and entry.etag != if_match else None

        gone = self._until_known(key, Write[bool](send, look, refused=False, conditional=if_match is not None))
        # Of a request that was sent twice, the second may be refused since the first removed the object.
        return gone or self.head(key) is None

    def delete_all(self, keys: Sequence[str]) -> None:
        most = self._driver.most_deleted
        for start in range(0, len(keys), most):
            # What a request for many did not do, for any reason, is done one by one, with all that this knows of
            # replies that were lost.
            for key in self._left_of(keys[start : start + most]):
                self.delete(key)

    def _left_of(self, keys: Sequence[str]) -> Sequence[str]:
        for key in keys:
            check_key(key)
        try:
            return self._driver.delete_many(keys)
        except Exception as error:
            # Whatever it means, one of the keys alone meets it again, and its error is explained there.
            self._driver.errors.meaning(error)
            return keys

    def _range(self, key: str, start: int, length: int) -> Fetched:
        found = self._ask(key, lambda: self._driver.get_range(key, start, length))
        if found is None:
            raise self._missing(key)
        return found

    def _pages(self, prefix: str, folders: bool, start_after: str) -> Iterator[Page]:
        token = None
        while True:
            asked = partial(self._driver.page, prefix, folders=folders, start_after=start_after, token=token)
            page = self._ask(prefix, asked)
            yield page
            token = page.token
            if token is None:
                return

    def _arrived(self, key: str, size: int) -> Entry | None:
        """The entry of an object of ``size`` bytes that was sent, and may be there though that failed."""
        try:
            entry = self.head(key)
        except SingerlakeError:
            return None
        return entry if entry is not None and entry.size == size else None

    def _checked(self, key: str, size: int) -> Entry:
        """The entry of an object that was sent. Raises ``StorageUnavailableError`` where it has not ``size`` bytes."""
        entry = self.head(key)
        if entry is None or entry.size != size:
            raise StorageUnavailableError(
                "storage reports another size than was uploaded",
                hint="run again",
                key=key,
                sent=size,
                stored=entry.size if entry else None,
            )
        return entry

    def _missing(self, key: str) -> MissingFileError:
        return MissingFileError("no such object", key=key, lake_root=self.url)

    def _asker(self, of: str) -> Callable[..., Result]:
        def ask(request: Callable[[], Result], *, key: str | None = None) -> Result:
            # What is asked about another object is only read.
            return self._ask(of if key is None else key, request, changes=key is None)

        return ask

    def _ask(self, key: str, request: Callable[[], Result], *, changes: bool = False) -> Result:
        return send_until_answered(
            request,
            patience=self._patience,
            errors=self._driver.errors,
            translate=self._translate(key),
            key=key,
            changes=changes,
        )

    def _until_known(self, key: str, write: Write[Result]) -> Result:
        return send_until_known(
            write, patience=self._patience, errors=self._driver.errors, translate=self._translate(key), key=key
        )

    def _translate(self, key: str) -> Callable[[Exception], SingerlakeError]:
        return lambda error: self._driver.translate(error, key=key, lake_root=self.url)


def in_order(pages: Pages, prefix: str, start_after: str, *, held: int = HELD) -> Iterator[Entry]:
    """The entries below ``prefix`` after ``start_after``, in the byte order of their keys."""
    entries: list[Entry] = []
    for page in pages(prefix, False, start_after):
        entries += (entry for entry in page.entries if entry.key > start_after)
        if len(entries) > held:
            break
    else:
        yield from sorted(entries, key=lambda entry: entry.key)
        return
    entries.clear()
    yield from _by_folders(pages, prefix, start_after, held)


def _by_folders(pages: Pages, prefix: str, start_after: str, held: int) -> Iterator[Entry]:
    level: list[Entry | str] = []
    for page in pages(prefix, True, start_after):
        level += (entry for entry in page.entries if entry.key > start_after)
        # A folder that comes before the key may hold it, and what follows it.
        level += (name for name in page.folders if name > start_after or start_after.startswith(name))
    level.sort(key=lambda each: each if isinstance(each, str) else each.key)
    for each in level:
        if isinstance(each, str):
            yield from in_order(pages, each, start_after, held=held)
        else:
            yield each


def open_ranges(read_range: Callable[[int, int], bytes], start: int, end: int | None) -> BinaryIO:
    """The bytes [start, end) of an object, None: to its end, range after range, so that nothing has to be resumed.
    ``read_range`` takes a start and a length, and gives fewer only at the end; its errors are raised."""
    at, over = start, False

    def following() -> bytes:
        nonlocal at, over
        if over:
            return b""
        wanted = RANGE_BYTES if end is None else max(0, min(RANGE_BYTES, end - at))
        data = read_range(at, wanted)
        at += len(data)
        over = len(data) < wanted or wanted == 0
        return data

    # The first range now: one that is missing is told when it is opened.
    return joined(chain((following(),), iter(following, b"")))

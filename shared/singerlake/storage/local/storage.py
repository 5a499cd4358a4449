"""Objects as files under one folder of a POSIX file system.

A write is a temporary file in the target's own folder, fsync, rename, fsync of the folder; a crash at any point leaves
the old object or the new one, whole. Conditions, and every write that could slip between a condition and its effect,
hold one ``flock`` on ``<root>/.singerlake.flock``, which is never deleted: a waiter on a deleted file would hold
a lock that no other machine can see. Symbolic links below the root are refused, so that no key leads out of the lake.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import BinaryIO

from singerlake.clock import Clock, IdSource
from singerlake.errors import (
    AccessDeniedError,
    CorruptObjectError,
    MissingFileError,
    NameTooLongError,
    SingerlakeError,
    StorageFullError,
    StorageUnavailableError,
)
from singerlake.storage.keys import FLOCK_NAME, TEMPORARY_PREFIX, check_conditions, check_prefix, ends_early, is_hidden
from singerlake.storage.local.files import (
    Temporary,
    adopt,
    exclusive,
    files_not_whole,
    fill_durably,
    make_folder,
    settle,
    sync_folder,
)
from singerlake.storage.local.places import Places, opened, read_part, read_whole
from singerlake.storage.port import Beginning, Capabilities, Entry, Folder, Part, Refused, Stored, Written
from singerlake.storage.streams import window

ABANDONED_AFTER = timedelta(days=1)
"""Age at which a temporary file belongs to no running writer: a killed process cannot remove its own."""
_COPIED = 1 << 18


class LocalStorage:
    """A ``Storage`` in a folder, safe between threads and between processes of one machine, and between machines where
    the file system carries ``flock`` across them. A root that does not exist is made by the first write.

    A folder that is emptied stays: a writer flushes the name of a folder once, so that no crash unmakes what it writes
    there later, and would not know if others removed it. ``fleeting`` keys are those of objects on which nothing rests
    after a crash of the machine, as locks. Their folders are not flushed for them: a crash may undo a write.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        clock: Clock,
        ids: IdSource,
        fleeting: Callable[[str], bool] = lambda key: False,
    ) -> None:
        self._root = Path(os.path.abspath(root))
        self._fleeting = fleeting
        self._clock = clock
        self._ids = ids
        self._durable: set[str] = set()
        self._models: dict[str, os.stat_result] = {}
        self._places = Places(self._root)
        self._flock = str(self._root / FLOCK_NAME)

    @property
    def url(self) -> str:
        return str(self._root)

    @property
    def near(self) -> bool:
        return True

    def capabilities(self) -> Capabilities:
        return Capabilities(conditional_put=True, conditional_delete=True)

    def get(self, key: str) -> Stored | None:
        try:
            with self._reading(key):
                body, status = read_whole(self._places.place(key))
            return Stored(body=body, etag=etag_of(status), last_modified=modified_of(status))
        except MissingFileError:
            return None

    def head(self, key: str) -> Entry | None:
        with self._reading(key):
            status = self._places.status(key)
            return entry_of(key, status) if status else None

    def put(self, key: str, body: bytes, *, if_absent: bool = False, if_match: str | None = None) -> Written | Refused:
        check_conditions(if_absent, if_match)
        with self._writing(key):
            path = self._places.path_to_write(key)
            with self._temporary(path) as temporary:
                temporary.write_durably(body)
                status = self._models[os.path.dirname(path)] = temporary.stamp()
                temporary.close()
                with exclusive(self._flock):
                    present = self._places.present(key, path)
                    if refuses(present, if_absent, if_match):
                        outcome: Written | Refused = Refused()
                    else:
                        outcome = Written(etag_of(self._replace(temporary, status, path, present)))
                if not self._fleeting(key):
                    # What refused it may be so new that its own writer has not flushed it yet.
                    settle(path)
                return outcome

    def upload(self, key: str, path: Path, ready: Callable[[], object] = lambda: None) -> int:
        size = path.stat().st_size
        ready()
        with self._writing(key):
            target = self._places.path_to_write(key)
            model = self._models.get(os.path.dirname(target))
            try:
                self._upload(key, target, path, size, model)
            except FileNotFoundError:
                if model is None:
                    raise
                # Somebody removed the folder since a file was last made in it.
                self._models.clear()
                self._upload(key, target, path, size, None)
        return size

    def _upload(self, key: str, target: str, path: Path, size: int, model: os.stat_result | None) -> None:
        """``model`` is the status of a file that was made in the folder, so that none has to be made to see it."""
        with self._temporary(target, made=model is None) as temporary:
            if not adopt(path, temporary.path, model or os.fstat(temporary.descriptor)):
                with path.open("rb") as reader:
                    fill_durably(temporary.path, iter(partial(reader.read, _COPIED), b""))
            temporary.close()
            status = temporary.stamp()
            if status.st_size != size:
                raise StorageUnavailableError("a file changed while it was copied", hint="run again", key=key)
            with exclusive(self._flock):
                self._replace(temporary, status, target, self._places.present(key, target))
            settle(target)

    def compose(self, key: str, pieces: Sequence[bytes | Part]) -> Entry:
        with self._writing(key):
            target = self._places.path_to_write(key)
            with self._temporary(target) as temporary:
                temporary.close()
                fill_durably(temporary.path, (data for piece in pieces for data in self._data(piece)))
                status = temporary.stamp()
                with exclusive(self._flock):
                    status = self._replace(temporary, status, target, self._places.present(key, target))
                settle(target)
        return entry_of(key, status)

    def _data(self, piece: bytes | Part) -> Iterator[bytes]:
        if isinstance(piece, bytes):
            yield piece
            return
        with self._reading(piece.key), opened(self._places.place(piece.key)) as file:
            file.seek(piece.start)
            left = piece.size
            while left:
                data = file.read(min(left, _COPIED))
                if not data:
                    raise ends_early(piece)
                left -= len(data)
                yield data

    def read_range(self, key: str, start: int, length: int) -> bytes:
        with self._reading(key):
            return read_part(self._places.place(key), start, length)[0]

    def beginning(self, key: str, length: int) -> Beginning:
        with self._reading(key):
            return Beginning(*read_part(self._places.place(key), 0, length))

    def bodies(self, keys: Sequence[str], most: int) -> Sequence[bytes | None]:
        return self._places.bodies(keys, most)

    def open(self, key: str, start: int = 0, end: int | None = None) -> BinaryIO:
        # Without a context around what is done a million times.
        try:
            file = opened(self._places.place(key))
            if start:
                file.seek(start)
        except OSError:
            with self._reading(key):
                raise
        return file if end is None else window(file, end - start)

    def list(self, prefix: str, *, start_after: str = "") -> Iterator[Entry]:
        check_prefix(prefix)
        folder, slash, _ = prefix.rpartition("/")
        after = os.fsencode(start_after)
        for key in self._walk(folder + slash, os.fsencode(prefix), after):
            if (entry := self._listed(key)) is not None:
                yield entry

    def list_folder(self, prefix: str) -> Folder:
        check_prefix(prefix)
        entries: list[Entry] = []
        folders: list[str] = []
        for name in self._scan(prefix):
            if name.endswith("/"):
                if self._holds_objects(prefix + name):
                    folders.append(name)
            elif (entry := self._listed(prefix + name)) is not None:
                entries.append(entry)
        return Folder(entries=tuple(entries), folders=tuple(folders))

    def unfinished(self, prefix: str) -> Iterator[tuple[str, BinaryIO]]:
        check_prefix(prefix)
        for name, path in files_not_whole(Path(self._places.top), prefix):
            try:
                with self._reading(name):
                    opened = path.open("rb")
            except MissingFileError:
                # Its writer ended meanwhile.
                continue
            yield name, opened

    def delete(self, key: str, *, if_match: str | None = None) -> bool:
        with self._writing(key):
            path = self._places.path_to_write(key)
            if self._places.present(key, path) is None:
                return True
            with exclusive(self._flock):
                present = self._places.present(key, path)
                if present is None:
                    return True
                if if_match is not None and etag_of(present) != if_match:
                    return False
                os.unlink(path)
            if not self._fleeting(key):
                settle(path)
            return True

    def delete_all(self, keys: Sequence[str]) -> None:
        removed: dict[str, str] = {}
        try:
            for key in keys:
                with self._writing(key):
                    path = self._places.path_to_write(key)
                    if self._places.present(key, path) is None:
                        continue
                    with exclusive(self._flock), suppress(FileNotFoundError):
                        os.unlink(path)
                    removed[os.path.dirname(path)] = path
        finally:
            for path in removed.values():
                settle(path)

    def _walk(self, folder: str, prefix: bytes, after: bytes) -> Iterator[str]:
        """Keys of files below a folder, in key order, without visiting folders that hold nothing asked for."""
        all_wanted = os.fsencode(folder).startswith(prefix) and not after
        for name in self._scan(folder):
            if all_wanted and not name.endswith("/"):
                yield folder + name
                continue
            key = os.fsencode(folder + name)
            if name.endswith("/"):
                wanted = key.startswith(prefix) or prefix.startswith(key)
                if wanted and (key > after or after.startswith(key)):
                    yield from self._walk(folder + name, prefix, after)
            elif key.startswith(prefix) and key > after:
                yield folder + name

    def _scan(self, folder: str) -> Sequence[str]:
        """Names directly in a folder, subfolders ending in ``/``, in the byte order of the keys they lead to. Of a
        million files, what ``os.scandir`` says of each would take a gigabyte: nothing but their names is kept."""
        names: list[str] = []
        with suppress(MissingFileError), self._reading(folder):
            path = self._places.path(folder[:-1]) if folder else self._root
            with os.scandir(path) as items:
                for item in items:
                    if item.is_file(follow_symlinks=False):
                        if not is_hidden(item.name):
                            names.append(item.name)
                        continue
                    if is_hidden(item.name) or (item.is_symlink() and not os.path.exists(item.path)):
                        continue
                    if item.is_symlink():
                        self._places.path(folder + item.name)
                    if item.is_dir():
                        names.append(item.name + "/")
                    elif item.is_file():
                        names.append(item.name)
        names.sort(key=None if all(map(str.isascii, names)) else os.fsencode)
        return names

    def _listed(self, key: str) -> Entry | None:
        """The entry of a file found by a scan; None where it is gone by now."""
        try:
            return entry_of(key, os.stat(f"{self._places.top}/{key}"))
        except OSError:
            with suppress(MissingFileError), self._reading(key):
                raise
            return None

    def _holds_objects(self, folder: str) -> bool:
        """Whether any object lies below; emptied folders stay on disk, but object storage would not show them."""
        names = self._scan(folder)
        return any(not name.endswith("/") for name in names) or any(self._holds_objects(folder + n) for n in names)

    def _temporary(self, path: str, *, made: bool = True) -> Temporary:
        """A new file in the folder of ``path``, which is made, durably, if need be."""
        folder = os.path.dirname(path)
        temporary = f"{folder}/{TEMPORARY_PREFIX}{self._ids()}"
        try:
            self._make_folder(folder)
            return Temporary(temporary, made=made)
        except FileNotFoundError:  # somebody removed the folder since this object last made it
            self._durable.clear()
            self._make_folder(folder)
            return Temporary(temporary, made=made)

    def _make_folder(self, folder: str) -> None:
        """Make a folder and see to it that a crash cannot unmake it, whichever process made it, once per folder: its
        name, and those of the folders above it, are flushed with the folders that hold them."""
        if folder in self._durable:
            return
        top = self._places.top or "/"
        unsure = [folder]
        while unsure[-1] != top and (above := os.path.dirname(unsure[-1])) not in self._durable:
            unsure.append(above)
        named = [each for each in unsure if each != top]
        if unsure[-1] == top:
            named += [str(each) for each in (self._root, *self._root.parents) if not each.exists()]
        made = make_folder(folder)
        for holder in {os.path.dirname(each) for each in named}:
            sync_folder(holder)
        if not made:
            self._remove_abandoned(folder)
        self._durable.update(unsure)

    def _remove_abandoned(self, folder: str) -> None:
        """Remove what killed writers left in a folder; nothing else can, since no listing shows it."""
        oldest = (self._clock.now() - ABANDONED_AFTER).timestamp()
        with os.scandir(folder) as items:
            for item in items:
                if item.name.startswith(TEMPORARY_PREFIX):
                    with suppress(FileNotFoundError, PermissionError):
                        if item.stat(follow_symlinks=False).st_mtime < oldest:
                            os.unlink(item.path)

    def _replace(
        self, temporary: Temporary, status: os.stat_result, path: str, present: os.stat_result | None
    ) -> os.stat_result:
        """Give a finished and stamped temporary file its name, under the flock, and return its status. Readers may see
        it from now on. The caller flushes the folder outside of the flock: several can wait for the disk at once."""
        if present is not None and status.st_mtime_ns <= present.st_mtime_ns:
            status = temporary.stamp(present.st_mtime_ns)
        temporary.rename(path)
        return status

    @contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        """Translate the operating system's errors; whatever is not a file at the key is ``MissingFileError``."""
        try:
            yield
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise MissingFileError("no such object", key=key, lake_root=self.url) from error
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise self._places.link(key) from error
            raise translate(error, key, self.url) from error

    @contextmanager
    def _writing(self, key: str) -> Iterator[None]:
        """Translate the operating system's errors of a write, before which nothing has changed."""
        try:
            yield
        except OSError as error:
            raise translate(error, key, self.url) from error


def translate(error: OSError, key: str, root: str) -> SingerlakeError:
    """What a person can do about an error of the operating system, of ``key`` of the lake in the folder ``root``."""
    kind: type[SingerlakeError] = StorageUnavailableError
    message, hint = "the file system failed", "check the disk, then run again"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        kind, message, hint = StorageFullError, "no space is left for the lake", "free space or raise the quota"
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        kind, message = AccessDeniedError, "permission denied in the lake's folder"
        hint = "check its owner and mode, or change lake_root"
        if error.errno == errno.EROFS:
            message, hint = "the lake's file system is mounted to be read alone", "mount it otherwise"
    elif error.errno == errno.ELOOP:
        kind, message = AccessDeniedError, "the lake contains a symbolic link, and links in a lake are not followed"
        hint = "move what it points at into the lake, or remove it"
    elif error.errno == errno.ENAMETOOLONG:
        kind, message = NameTooLongError, "a name is too long for the lake's file system"
        hint = "shorten the tap id or the stream name"
    elif isinstance(error, (NotADirectoryError, IsADirectoryError, FileExistsError)):
        kind, message = CorruptObjectError, "a file has the name of a folder, or a folder the name of a file"
        hint = "move it out of the lake"
    return kind(message, hint=hint, key=key, lake_root=root, reason=error.strerror or str(error))


def etag_of(status: os.stat_result) -> str:
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


def modified_of(status: os.stat_result) -> datetime:
    return datetime.fromtimestamp(status.st_mtime, UTC)


def entry_of(key: str, status: os.stat_result) -> Entry:
    return Entry(key, status.st_size, modified_of(status), etag_of(status))


def refuses(present: os.stat_result | None, if_absent: bool, if_match: str | None) -> bool:
    """Whether what is there, None: nothing, keeps a conditional write from taking place."""
    if if_match is not None:
        return present is None or etag_of(present) != if_match
    return if_absent and present is not None

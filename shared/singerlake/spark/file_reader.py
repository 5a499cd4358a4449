"""What tasks do for ``file_bytes``: they read attached files by their paths, and check them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from singerlake.errors import BrokenFileError, MissingFileError, SettingError, ValueDoesNotFitError
from singerlake.format import layout
from singerlake.spark.worker_storage import task_storage
from singerlake.work.parallel import in_parallel

if TYPE_CHECKING:
    import pyarrow as pa

    from singerlake.storage.port import Storage

_THREADS = 4
"""Files that a task asks for at once. Up to twice as many are held."""
_FIRST = 8 << 20
"""Bytes that the first request of a file asks for."""
_MOST = (1 << 31) - (1 << 20)
"""Bytes of a value: Java's arrays hold no more."""
_BATCH_ROWS, _BATCH_BYTES = 1000, 32 << 20
"""What is given back at once, about. Spark gives 10,000 paths at once, whatever their files hold."""


@dataclass(frozen=True)
class FileReader:
    """What tasks do with paths; it travels to them with the settings of the lake's storage."""

    path: str
    settings: tuple[tuple[str, Any], ...] = field(repr=False)
    """With secrets among them."""

    def __call__(self, paths: Iterator[pa.Array]) -> Iterator[pa.Array]:
        """The bytes of the file at each path, in arrays of any length. Raises as ``file_bytes`` says."""
        import pyarrow as pa

        there = task_storage(self.path, self.settings)
        for array in paths:
            values: list[bytes | None] = []
            size = 0
            for data in in_parallel(lambda path: _read(there, path), array.to_pylist(), threads=_THREADS):
                values.append(data)
                size += len(data or b"")
                if len(values) >= _BATCH_ROWS or size >= _BATCH_BYTES:
                    yield pa.array(values, pa.binary())
                    values, size = [], 0
            yield pa.array(values, pa.binary())


def _read(storage: Storage, path: Any) -> bytes | None:
    if path is None:
        return None
    key, sha256 = _key_and_sha256(storage, path)
    try:
        beginning = storage.beginning(key, _FIRST)
        if beginning.size > _MOST:
            raise ValueDoesNotFitError(
                "an attached file is larger than a value of Spark can be",
                hint="leave it out by its 'bytes', and open it by LakeStream.open_file",
                file=key,
                bytes=beginning.size,
            )
        data = beginning.data
        if len(data) < beginning.size:
            with storage.open(key, len(data)) as rest:
                data += rest.read()
    except MissingFileError as error:
        raise MissingFileError(
            "an attached file is gone: this DataFrame was loaded before gc, or the file is lost",
            hint="load it again; if the file is still missing then, run 'singerlake verify'",
            file=key,
        ) from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise BrokenFileError(
            "its bytes are not those that were attached",
            hint="run 'singerlake verify'; restore the file from a backup",
            file=key,
        )
    return data


def _key_and_sha256(storage: Storage, path: Any) -> tuple[str, str]:
    """The key of an attached file, and its SHA-256. Nothing else of the storage may be asked for. A column of
    something else than paths has other values than texts."""
    root = storage.url.rstrip("/") + "/"
    path = path if isinstance(path, str) else ""
    key = path.removeprefix(root)
    raw, _, below = key.partition("/")
    tap, _, rest = below.partition("/")
    stream, _, inside = rest.partition("/")
    named = all(layout.from_segment(segment) is not None for segment in (tap, stream))
    name = layout.attached_name_in(inside)
    if not path.startswith(root) or raw != layout.RAW or not named or name is None:
        raise SettingError(
            "this is not a path of an attached file of the lake",
            hint="give the 'path' of _singerlake_files, and the lake's own root",
            lake=storage.url,
        )
    return key, name.partition(".")[0]

"""botocore's descriptions of AWS's services, read in half the time: each process waits for megabytes of JSON."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from botocore.loaders import JSONFileLoader, Loader
from botocore.session import Session

_READ: Mapping[str, Callable[[bytes], bytes]] = {".json": bytes, ".json.gz": gzip.decompress}


class _Files(JSONFileLoader):  # type: ignore[misc]
    def load_file(self, file_path: str) -> Any:
        for suffix, unpacked in _READ.items():
            # What is not JSON is botocore's to refuse.
            with suppress(FileNotFoundError, NotADirectoryError, msgspec.DecodeError):
                return msgspec.json.decode(unpacked(Path(file_path + suffix).read_bytes()))
        return super().load_file(file_path)


class _Descriptions(Loader):  # type: ignore[misc]
    FILE_LOADER_CLASS = _Files

    def list_available_services(self, type_name: str) -> list[str]:
        """All names below the search paths: botocore looks into each of 400 folders to check one name."""
        names: set[str] = set()
        for path in self.search_paths:
            with suppress(OSError):
                names.update(os.listdir(path))
        return sorted(names)


def read_sooner(session: Session) -> None:
    """Have a session that has made no client yet read its descriptions so, from where it would have read them."""
    session.register_component("data_loader", loader(session.get_component("data_loader").search_paths))


def loader(search_paths: Sequence[str]) -> Loader:
    """Reads the descriptions below these folders, and remembers them."""
    return _Descriptions(extra_search_paths=list(search_paths), include_default_search_paths=False)

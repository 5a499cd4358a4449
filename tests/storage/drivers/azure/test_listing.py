"""Listings of names that are no keys, of other orders, and of directories that come as blobs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.storage.cloud.storage import CloudStorage, in_order
from singerlake.storage.drivers.azure.access import Client
from singerlake.storage.drivers.azure.driver import AzureDriver, name_of
from singerlake.storage.drivers.azure.settings import AzureSettings
from tests.fakes import FakeClock
from tests.storage.drivers.azure.opening import KEY, opened

SEGMENT = st.sampled_from(["a", "a-", "a.", "a..", "a.b", "b~", "~", "é", "😀", "x\\y", ".a"])
KEYS = st.sets(st.lists(SEGMENT, min_size=1, max_size=3).map("/".join), max_size=15).map(
    lambda keys: {key for key in keys if not any(other.startswith(f"{key}/") for other in keys)}
)


class Item(dict[str, Any]):
    """A blob or a prefix as the library lists it."""

    def __init__(self, name: str, **more: Any) -> None:
        super().__init__(name=name, **more)
        self.__dict__ = self


def blob(name: str, **metadata: str) -> Item:
    return Item(name, size=0, etag='"0x1"', last_modified=datetime(2026, 1, 1, tzinfo=UTC), metadata=metadata)


class Pages:
    def __init__(self, items: list[Item], token: str | None, size: int) -> None:
        begin = int(token or 0)
        self._items = items[begin : begin + size]
        self.continuation_token = str(begin + size) if begin + size < len(items) else ""

    def __iter__(self) -> Iterator[list[Item]]:
        return self

    def __next__(self) -> list[Item]:
        return self._items


class Hierarchy:
    """A container with a hierarchical namespace: directories are listed as empty blobs, where metadata is asked for
    they say what they are, and its order is its own."""

    def __init__(self, names: set[str], *, size: int = 3) -> None:
        folders = {name[:at] for name in names for at, sign in enumerate(name) if sign == "/"}
        self._files = names
        self._folders = {folder for folder in folders if folder}
        self._size = size

    def list_blobs(self, *, name_starts_with: str, include: list[str]) -> Any:
        assert include == ["metadata"]
        found = [blob(name) for name in self._files] + [blob(name, hdi_isfolder="true") for name in self._folders]
        return self._paged([item for item in found if item["name"].startswith(name_starts_with)])

    def walk_blobs(self, *, name_starts_with: str, include: list[str], delimiter: str) -> Any:
        flat = {
            item["name"]: item for item in self.list_blobs(name_starts_with=name_starts_with, include=include).items
        }
        level: dict[str, Item] = {}
        for name, item in flat.items():
            head, slash, _ = name[len(name_starts_with) :].partition(delimiter)
            if slash:
                level[name_starts_with + head + slash] = Item(name_starts_with + head + slash)
            else:
                level[name] = item
        return self._paged(list(level.values()))

    def _paged(self, items: list[Item]) -> Any:
        random.Random(str(sorted(item["name"] for item in items))).shuffle(items)
        return SimpleNamespace(
            items=items, by_page=lambda continuation_token: Pages(items, continuation_token, self._size)
        )


def over(container: Any) -> AzureDriver:
    driver = AzureDriver("c", "lake", AzureSettings(account_name="acct", account_key=KEY))
    driver._connected = Client(container, None)
    return driver


def holding(keys: set[str], *foreign: str) -> CloudStorage:
    names = {f"lake/{name_of(key)}" for key in keys} | {f"lake/{name}" for name in foreign} | {"other/x"}
    return opened(over(Hierarchy(names)), FakeClock())


@given(
    keys=KEYS,
    prefix=st.sampled_from(["", "a", "a.", "a..", "a/", "a./", "b", "~", "x", "é/a."]),
    after=st.sampled_from(["", "a", "a.", "a-/b", "a/~", "é", "~/a"]),
    held=st.sampled_from([0, 1, 3, 1000]),
)
def test_a_listing_is_filtering_and_sorting_of_keys(keys: set[str], prefix: str, after: str, held: int) -> None:
    storage = holding(keys)
    wanted = sorted((key for key in keys if key.startswith(prefix) and key > after), key=lambda key: key.encode())
    assert [entry.key for entry in in_order(storage._pages, prefix, after, held=held)] == wanted
    assert [entry.key for entry in storage.list(prefix, start_after=after)] == wanted


@given(keys=KEYS, folder=st.sampled_from(["", "a/", "a./", "a../", "b~/", "x\\y/"]))
def test_one_level_shows_objects_and_folders_by_their_keys(keys: set[str], folder: str) -> None:
    below = [key[len(folder) :] for key in keys if key.startswith(folder)]
    level = holding(keys).list_folder(folder)
    assert [entry.key for entry in level.entries] == sorted(folder + each for each in below if "/" not in each)
    assert list(level.folders) == sorted({each.partition("/")[0] + "/" for each in below if "/" in each})


def test_names_that_no_key_has_are_left_out() -> None:
    storage = holding({"a~b"}, "b~c", "x~zz", "~41")
    assert [entry.key for entry in storage.list("")] == ["a~b"]
    assert [entry.key for entry in storage.list_folder("").entries] == ["a~b"]


@pytest.mark.parametrize("name", ["hdi_isfolder", "Hdi_isfolder"])
def test_a_directory_is_no_object(name: str) -> None:
    found = SimpleNamespace(metadata={name: "true"}, size=0, etag='"1"', content_range="bytes 0-0/0")
    reply = SimpleNamespace(properties=found, readall=lambda: b"")
    client = SimpleNamespace(get_blob_properties=lambda: found, download_blob=lambda **_: reply)
    driver = over(SimpleNamespace(get_blob_client=lambda _: client))
    assert driver.head("a") is None
    assert driver.get("a") is None
    assert driver.get_range("a", 0, 1) is None


def test_an_empty_object_with_metadata_of_its_own_is_one(storage: CloudStorage) -> None:
    storage._driver._blob("empty").upload_blob(b"", metadata={"mine": "true"})  # type: ignore[attr-defined]
    storage._driver._blob("folder").upload_blob(b"", metadata={"hdi_isfolder": "true"})  # type: ignore[attr-defined]
    assert [entry.key for entry in storage.list("")] == ["empty"]
    assert storage.head("empty") is not None
    assert (storage.head("folder"), storage.get("folder")) == (None, None)

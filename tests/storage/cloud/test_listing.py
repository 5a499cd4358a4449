"""Listings in the byte order of keys, made of listings in any other order, however few entries may be held."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from singerlake.storage.cloud.driver import Page
from singerlake.storage.cloud.storage import RANGE_BYTES, Pages, in_order, open_ranges
from singerlake.storage.port import Entry

SEGMENT = st.sampled_from(["a", "a-", "a.", "a0", "b", "é", "😀", "\ufb01"])
KEYS = st.sets(st.lists(SEGMENT, min_size=1, max_size=4).map("/".join), max_size=30)


def _pages_of(keys: set[str]) -> Pages:
    """A cloud that orders its keys by their last character first."""

    def pages(prefix: str, folders: bool, start_after: str) -> Iterator[Page]:
        names: set[str] = set()
        for key in keys:
            if key.startswith(prefix):
                folder, slash, _ = key[len(prefix) :].partition("/")
                names.add(f"{prefix}{folder}/" if folders and slash else key)
        ordered = sorted(names, key=lambda name: name[::-1])
        for name in ordered:
            if folders and name.endswith("/"):
                yield Page([], [name], "more")
            else:
                yield Page([Entry(name, 0, datetime(2026, 1, 1, tzinfo=UTC), "e")], [], "more")
        yield Page([], [], None)

    return pages


@given(keys=KEYS, prefix=st.sampled_from(["", "a", "a/", "a/b", "b/"]), after=KEYS, held=st.integers(0, 5))
def test_all_keys_come_in_order_and_once(keys: set[str], prefix: str, after: set[str], held: int) -> None:
    start_after = min(after, default="")
    found = [entry.key for entry in in_order(_pages_of(keys), prefix, start_after, held=held)]
    assert found == sorted(
        (key for key in keys if key.startswith(prefix) and key > start_after), key=lambda key: key.encode()
    )


@given(data=st.binary(max_size=50), start=st.integers(0, 60), end=st.none() | st.integers(0, 60))
def test_a_stream_of_ranges_is_a_slice(data: bytes, start: int, end: int | None) -> None:
    with open_ranges(lambda at, length: data[at : at + length], start, end) as stream:
        assert stream.read() == data[start:end]


def test_a_long_stream_is_read_in_few_requests() -> None:
    data, asked = bytes(2 * RANGE_BYTES + 5), []

    def read(at: int, length: int) -> bytes:
        asked.append((at, length))
        return data[at : at + length]

    with open_ranges(read, 0, None) as stream:
        assert len(stream.read()) == len(data)
    assert [at for at, _ in asked] == [0, RANGE_BYTES, 2 * RANGE_BYTES]

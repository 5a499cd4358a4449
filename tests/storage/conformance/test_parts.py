"""Parts of objects, uploads, and objects made of others."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.errors import LockTimeoutError, MissingFileError
from singerlake.storage.port import Beginning, Entry, Part, Storage
from tests.storage.adapters import Opener
from tests.storage.conformance.objects import ODD_KEYS, body

LARGE, SMALL = bytes(range(256)) * (6 << 12), b"small" * 1000


@pytest.fixture(scope="module")
def shelf(opener: Opener) -> Storage:
    """Objects to make others of."""
    storage = opener.fresh()
    storage.put("from/large", LARGE)
    storage.put("from/small", SMALL)
    for key in ODD_KEYS:
        storage.put(key, key.encode())
    return storage


class TestPartsAndUploads:
    BODY = bytes(range(256)) * 40

    @pytest.mark.crossed("opener", "start")
    @pytest.mark.parametrize(("start", "length"), [(0, 1), (5, 0), (100, 256), (10_200, 100), (10_240, 5), (99_999, 5)])
    def test_a_range_is_a_slice(self, storage: Storage, start: int, length: int) -> None:
        storage.put("a", self.BODY)
        assert storage.read_range("a", start, length) == self.BODY[start : start + length]

    @pytest.mark.parametrize(
        ("start", "end"),
        [(0, None), (3, None), (10_239, None), (10_240, None), (0, 10), (5, 10_000), (7, 7), (9, 99_999)],
    )
    def test_a_stream_is_a_slice_too(self, storage: Storage, start: int, end: int | None) -> None:
        storage.put("a", self.BODY)
        with storage.open("a", start, end) as stream:
            first = stream.read(7)
            assert first + stream.read() == self.BODY[start:end]
            assert stream.read(1) == b""

    def test_parts_of_an_absent_object_are_a_missing_file(self, storage: Storage) -> None:
        with pytest.raises(MissingFileError, match="absent"):
            storage.read_range("absent", 0, 1)
        with pytest.raises(MissingFileError, match="absent"):
            storage.open("absent")
        for length in (0, 1):
            with pytest.raises(MissingFileError, match="absent"):
                storage.beginning("absent", length)

    @pytest.mark.crossed("opener", "length")
    @pytest.mark.parametrize("length", [0, 1, 256, 10_239, 10_240, 99_999])
    def test_a_beginning_gives_the_beginning_and_the_size_of_the_whole(self, storage: Storage, length: int) -> None:
        storage.put("a", self.BODY)
        storage.put("empty", b"")
        assert storage.beginning("a", length) == Beginning(self.BODY[:length], len(self.BODY))
        assert storage.beginning("empty", length) == Beginning(b"", 0)

    def test_an_uploaded_file_is_an_object(self, storage: Storage, tmp_path: Path) -> None:
        path = tmp_path / "spool"
        path.write_bytes(self.BODY)
        assert storage.upload("data/file.singer.gz", path) == len(self.BODY)
        assert body(storage, "data/file.singer.gz") == self.BODY

    def test_nothing_of_a_file_is_there_before_it_may_be_sent(self, storage: Storage, tmp_path: Path) -> None:
        (tmp_path / "spool").write_bytes(self.BODY)
        seen: list[Entry | None] = []
        assert storage.upload("a", tmp_path / "spool", lambda: seen.append(storage.head("a"))) == len(self.BODY)
        assert seen == [None]
        assert body(storage, "a") == self.BODY

    def test_a_file_that_may_not_be_sent_leaves_nothing(self, storage: Storage, tmp_path: Path) -> None:
        (tmp_path / "spool").write_bytes(self.BODY)

        def ready() -> None:
            raise LockTimeoutError("writer slow has held the lock")

        with pytest.raises(LockTimeoutError, match="slow"):
            storage.upload("a", tmp_path / "spool", ready)
        assert list(storage.list("")) == []
        assert (tmp_path / "spool").read_bytes() == self.BODY

    def test_an_empty_file_uploads(self, storage: Storage, tmp_path: Path) -> None:
        path = tmp_path / "spool"
        path.write_bytes(b"")
        assert storage.upload("data/empty", path) == 0


class TestComposing:
    """Objects made of parts of others. S3 copies parts of 5 MiB by itself, so that sizes lie on both sides of that."""

    @pytest.mark.crossed("opener", "order")
    @pytest.mark.parametrize(
        "order",
        ["", "b", "s", "l", "ss", "sl", "ls", "ll", "bl", "bsls", "lbl", "slbls", "bslsb" * 3],
    )
    def test_given_bytes_and_parts_of_objects_come_in_their_order(self, shelf: Storage, order: str) -> None:
        whole = {
            "b": b"bytes",
            "s": Part("from/small", 0, len(SMALL)),
            "l": Part("from/large", 0, len(LARGE)),
        }
        texts = {"b": b"bytes", "s": SMALL, "l": LARGE}
        entry = shelf.compose("made/" + (order or "empty"), [whole[each] for each in order])
        expected = b"".join(texts[each] for each in order)
        assert entry.size == len(expected)
        assert shelf.head(entry.key) == entry
        assert body(shelf, entry.key) == expected

    def test_parts_begin_and_end_anywhere(self, shelf: Storage) -> None:
        size = len(LARGE)
        parts = [
            Part("from/large", 1, 10),
            Part("from/large", 7, size - 1),
            Part("from/small", 4, 5),
            Part("from/large", size - 3, size),
        ]
        shelf.compose("made/anywhere", parts)
        assert body(shelf, "made/anywhere") == LARGE[1:10] + LARGE[7:-1] + b"l" + LARGE[-3:]

    def test_odd_keys_are_read_and_made(self, shelf: Storage) -> None:
        for key in ODD_KEYS:
            shelf.compose(f"made/{key}", [Part(key, 0, len(key.encode())), Part("from/large", 0, len(LARGE))])
            assert shelf.read_range(f"made/{key}", 0, len(key.encode())) == key.encode()

    def test_keys_that_s3_copies_by_itself_may_be_odd(self, storage: Storage) -> None:
        for key in ODD_KEYS[:12]:
            storage.put(key, LARGE)
            storage.compose("made", [Part(key, 0, len(LARGE))])
            assert body(storage, "made") == LARGE

    @pytest.mark.parametrize("more", [0, 6 << 20])
    def test_a_source_that_is_not_there_is_named_and_nothing_is_made(self, shelf: Storage, more: int) -> None:
        with pytest.raises(MissingFileError, match="from/absent"):
            shelf.compose("made/not", [Part("from/small", 0, 3), Part("from/absent", 0, 10 + more)])
        assert shelf.head("made/not") is None

    @pytest.mark.parametrize("name", ["small", "large"])
    def test_a_source_that_ends_too_early_is_named_and_nothing_is_made(self, shelf: Storage, name: str) -> None:
        size = len(SMALL if name == "small" else LARGE)
        with pytest.raises(MissingFileError, match=f"ends before.*from/{name}"):
            shelf.compose("made/not", [b"bytes", Part(f"from/{name}", 1, size + 1)])
        assert shelf.head("made/not") is None

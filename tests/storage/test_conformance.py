"""The storage contract, held by every adapter alike. A factory that cannot start fails; it is never skipped."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.clock import SystemClock
from singerlake.errors import CorruptObject, MissingFile
from singerlake.storage.port import Refused, Storage, Written
from tests.storage.adapters import FACTORIES, Opener

ODD_KEYS = (
    "odd/percent%3B",
    "odd/plus+plus",
    "odd/hash#hash",
    "odd/space space",
    "odd/question?mark=1&b",
    "odd/quote\"'quote",
    "odd/back\\slash",
    "odd/brace{}[]*",
    "odd/tilde~",
    "odd/colon:colon",
    "odd/Überschrift-日本-😀",
    "odd/tab\there",
    "odd/%2F",
    "odd/-dash",
    "odd/.dot",
    "odd/" + "n" * 200,
)


@pytest.fixture(scope="module", params=sorted(FACTORIES))
def opener(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opener]:
    factory: Callable[[Path], AbstractContextManager[Opener]] = FACTORIES[request.param]
    with factory(tmp_path_factory.mktemp("conformance")) as opened:
        yield opened


@pytest.fixture
def storage(opener: Opener) -> Storage:
    return opener.fresh()


def written(outcome: Written | Refused) -> str:
    assert isinstance(outcome, Written)
    return outcome.etag


def keys(storage: Storage, prefix: str = "", start_after: str = "") -> list[str]:
    return [entry.key for entry in storage.list(prefix, start_after=start_after)]


def body(storage: Storage, key: str) -> bytes | None:
    stored = storage.get(key)
    return stored.body if stored else None


class TestReadingAndWriting:
    def test_what_was_put_is_what_is_got(self, storage: Storage) -> None:
        etag = written(storage.put("a/b", b"\x00\xffbody"))
        stored = storage.get("a/b")
        assert stored is not None
        assert (stored.body, stored.etag) == (b"\x00\xffbody", etag)

    def test_an_absent_object_is_none(self, storage: Storage) -> None:
        assert storage.get("absent") is None
        assert storage.head("absent") is None

    def test_an_empty_object_is_an_object(self, storage: Storage) -> None:
        storage.put("empty", b"")
        assert body(storage, "empty") == b""
        assert storage.read_range("empty", 0, 10) == b""
        with storage.open("empty") as stream:
            assert stream.read() == b""

    def test_head_get_and_list_agree(self, storage: Storage) -> None:
        storage.put("a", b"12345")
        stored, entry, listed = storage.get("a"), storage.head("a"), list(storage.list("a"))
        assert stored is not None
        assert entry is not None
        assert entry.size == 5
        assert entry.etag == stored.etag
        assert [(each.key, each.size, each.etag) for each in listed] == [("a", 5, entry.etag)]
        assert abs(listed[0].last_modified - stored.last_modified) < timedelta(seconds=1)

    def test_last_modified_is_aware_and_near_the_clock_of_the_machine(self, storage: Storage) -> None:
        storage.put("a", b"1")
        entry = storage.head("a")
        assert entry is not None
        assert abs(entry.last_modified - SystemClock().now()) < timedelta(minutes=15)

    def test_an_unconditional_put_replaces(self, storage: Storage) -> None:
        storage.put("a", b"1")
        storage.put("a", b"2")
        assert body(storage, "a") == b"2"

    @pytest.mark.parametrize(
        "key", ["", "/a", "a/", "a//b", "../a", "a/../b", "a/..", ".", "a/./b", "a\0b", "a/.tmp-1", ".singerlake.flock"]
    )
    def test_a_key_that_could_leave_the_lake_or_meet_its_own_files_is_refused(self, storage: Storage, key: str) -> None:
        operations: list[Callable[[], object]] = [
            lambda: storage.get(key),
            lambda: storage.head(key),
            lambda: storage.put(key, b""),
            lambda: storage.upload(key, Path(__file__)),
            lambda: storage.read_range(key, 0, 1),
            lambda: storage.open(key),
            lambda: storage.delete(key),
        ]
        for operation in operations:
            with pytest.raises(CorruptObject, match="key"):
                operation()

    @pytest.mark.parametrize("prefix", ["/", "../", "a/../", "a//b", "/a", "../x"])
    def test_a_prefix_that_could_leave_the_lake_is_refused(self, storage: Storage, prefix: str) -> None:
        with pytest.raises(CorruptObject):
            list(storage.list(prefix))
        with pytest.raises(CorruptObject):
            storage.list_folder(prefix)

    @pytest.mark.parametrize("key", ODD_KEYS)
    def test_an_odd_key_works_everywhere(self, storage: Storage, key: str, tmp_path: Path) -> None:
        etag = written(storage.put(key, b"body", if_absent=True))
        assert isinstance(storage.put(key, b"again", if_absent=True), Refused)
        assert isinstance(storage.put(key, b"next", if_match=etag), Written)
        assert body(storage, key) == b"next"
        assert storage.read_range(key, 1, 2) == b"ex"
        with storage.open(key, 1) as stream:
            assert stream.read() == b"ext"
        assert keys(storage) == [key]
        assert keys(storage, key) == [key]
        assert [entry.key for entry in storage.list_folder("odd/").entries] == [key]
        assert storage.delete(key) is True
        assert keys(storage) == []


class TestConditions:
    def test_this_storage_says_that_it_honours_conditions(self, storage: Storage) -> None:
        assert storage.capabilities().conditional_put

    def test_a_second_create_is_refused(self, storage: Storage) -> None:
        assert isinstance(storage.put("a", b"1", if_absent=True), Written)
        assert isinstance(storage.put("a", b"2", if_absent=True), Refused)
        assert body(storage, "a") == b"1"

    def test_create_works_again_after_a_delete(self, storage: Storage) -> None:
        storage.put("a", b"1", if_absent=True)
        storage.delete("a")
        assert isinstance(storage.put("a", b"2", if_absent=True), Written)

    @pytest.mark.parametrize("source", ["put", "get", "head", "list"])
    def test_an_etag_from_anywhere_replaces(self, storage: Storage, source: str) -> None:
        etag = written(storage.put("a", b"1"))
        stored, entry = storage.get("a"), storage.head("a")
        assert stored is not None
        assert entry is not None
        etags = {"put": etag, "get": stored.etag, "head": entry.etag, "list": next(storage.list("a")).etag}
        assert isinstance(storage.put("a", b"2", if_match=etags[source]), Written)
        assert body(storage, "a") == b"2"

    def test_an_old_etag_is_refused(self, storage: Storage) -> None:
        old = written(storage.put("a", b"1"))
        new = written(storage.put("a", b"2", if_match=old))
        assert isinstance(storage.put("a", b"3", if_match=old), Refused)
        assert body(storage, "a") == b"2"
        assert isinstance(storage.put("a", b"4", if_match=new), Written)

    def test_if_match_on_an_absent_key_is_refused_and_makes_nothing(self, storage: Storage) -> None:
        etag = written(storage.put("a", b"1"))
        assert isinstance(storage.put("absent", b"2", if_match=etag), Refused)
        assert storage.get("absent") is None

    def test_both_conditions_at_once_are_a_mistake_of_the_caller(self, storage: Storage) -> None:
        with pytest.raises(ValueError, match="exclude"):
            storage.put("a", b"1", if_absent=True, if_match="x")

    def test_delete_of_an_absent_key_is_done(self, storage: Storage) -> None:
        assert storage.delete("absent") is True

    def test_a_conditional_delete_leaves_what_another_wrote(self, opener: Opener, storage: Storage) -> None:
        old = written(storage.put("a", b"1"))
        new = written(storage.put("a", b"2"))
        assert storage.delete("a", if_match=old) is not storage.capabilities().conditional_delete
        if storage.capabilities().conditional_delete:
            assert body(storage, "a") == b"2"
            assert storage.delete("a", if_match=new) is True
        assert body(storage, "a") is None

    def test_threads_racing_to_create_have_one_winner_each_time(self, storage: Storage) -> None:
        for number in range(15):
            key = f"race/{number}"
            outcomes = _race([partial(storage.put, key, b"%d" % n, if_absent=True) for n in range(8)])
            winners = [n for n, outcome in enumerate(outcomes) if isinstance(outcome, Written)]
            assert len(winners) == 1
            assert body(storage, key) == b"%d" % winners[0]

    def test_threads_racing_to_replace_have_one_winner_each_time(self, storage: Storage) -> None:
        etag = written(storage.put("race", b"start"))
        for number in range(15):
            outcomes = _race([partial(storage.put, "race", b"%d-%d" % (number, n), if_match=etag) for n in range(8)])
            winners = [(n, outcome) for n, outcome in enumerate(outcomes) if isinstance(outcome, Written)]
            assert len(winners) == 1
            assert body(storage, "race") == b"%d-%d" % (number, winners[0][0])
            etag = winners[0][1].etag

    def test_processes_racing_to_count_lose_no_increment(self, opener: Opener, storage: Storage) -> None:
        storage.put("count", b"0")
        opener.race(storage, "count", workers=4, increments=10)
        assert body(storage, "count").split()[0] == b"40"

    def test_processes_racing_to_create_have_one_winner_for_each_key(self, opener: Opener, storage: Storage) -> None:
        won = opener.race_to_create(storage, [f"new/{number}" for number in range(10)], workers=4)
        assert sorted(won) == [f"new/{number}" for number in range(10)]


class TestListing:
    def test_keys_come_in_the_byte_order_of_their_utf8(self, storage: Storage) -> None:
        names = ["a", "a-b", "a.b", "a0", "aa", "b", "é", "日", "😀", "\ufb01", "Z", "_", "~", "%41"]
        for folder in ("l/", "l/x/", "l/x-/", "l/x./", "l/x0/"):
            for name in names:
                storage.put(folder + name, b"")
        expected = sorted(
            (f + n for f in ("l/", "l/x/", "l/x-/", "l/x./", "l/x0/") for n in names), key=lambda key: key.encode()
        )
        assert keys(storage, "l/") == expected

    def test_a_prefix_may_end_in_the_middle_of_a_name(self, storage: Storage) -> None:
        for key in ("ab/1", "abc/1", "abc/2", "b"):
            storage.put(key, b"")
        assert keys(storage, "ab") == ["ab/1", "abc/1", "abc/2"]
        assert keys(storage, "abc/1") == ["abc/1"]
        assert keys(storage, "nothing/here") == []

    def test_start_after_is_exclusive_and_need_not_exist(self, storage: Storage) -> None:
        for key in ("p/a", "p/b/1", "p/b/2", "p/c"):
            storage.put(key, b"")
        assert keys(storage, "p/", "p/a") == ["p/b/1", "p/b/2", "p/c"]
        assert keys(storage, "p/", "p/b/1") == ["p/b/2", "p/c"]
        assert keys(storage, "p/", "p/b") == ["p/b/1", "p/b/2", "p/c"]
        assert keys(storage, "p/", "p/bb") == ["p/c"]
        assert keys(storage, "p/", "z") == []

    def test_one_level_shows_objects_and_folders(self, storage: Storage) -> None:
        for key in ("t/a", "t/z", "t/f/1", "t/f/2", "t/g/h/i", "t-/x"):
            storage.put(key, b"12")
        folder = storage.list_folder("t/")
        assert [(entry.key, entry.size) for entry in folder.entries] == [("t/a", 2), ("t/z", 2)]
        assert folder.folders == ("f/", "g/")
        assert storage.list_folder("").folders == ("t-/", "t/")
        assert storage.list_folder("t/none/") == storage.list_folder("none/")

    def test_more_than_a_page_of_keys_is_listed_whole(self, opener: Opener, storage: Storage) -> None:
        expected = [f"many/{number:05d}" for number in range(1050)]
        opener.fill(storage, expected)
        assert keys(storage, "many/") == expected
        assert len(storage.list_folder("many/").entries) == 1050
        assert keys(storage, "many/", "many/01047") == ["many/01048", "many/01049"]

    @settings(max_examples=15, deadline=None)
    @given(
        names=st.sets(
            st.lists(st.sampled_from(["a", "b", "a-", "a.b", "A"]), min_size=1, max_size=3).map("/".join), max_size=6
        ),
        prefix=st.sampled_from(["", "a", "a/", "a/b", "A/a"]),
        after=st.sampled_from(["", "a", "a/b", "a-/a", "b"]),
    )
    def test_listing_is_filtering_and_sorting(self, opener: Opener, names: set[str], prefix: str, after: str) -> None:
        storage = opener.fresh()
        kept = {name for name in names if not any(other.startswith(name + "/") for other in names)}
        for name in kept:
            storage.put(name, b"")
        wanted = sorted(name for name in kept if name.startswith(prefix) and name > after)
        assert keys(storage, prefix, after) == wanted


class TestPartsAndUploads:
    BODY = bytes(range(256)) * 40

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
        with pytest.raises(MissingFile, match="absent"):
            storage.read_range("absent", 0, 1)
        with pytest.raises(MissingFile, match="absent"):
            storage.open("absent")

    def test_an_uploaded_file_is_an_object(self, storage: Storage, tmp_path: Path) -> None:
        path = tmp_path / "spool"
        path.write_bytes(self.BODY)
        entry = storage.upload("data/file.singer.gz", path)
        assert (entry.key, entry.size) == ("data/file.singer.gz", len(self.BODY))
        assert storage.head("data/file.singer.gz") == entry
        assert body(storage, "data/file.singer.gz") == self.BODY

    def test_an_empty_file_uploads(self, storage: Storage, tmp_path: Path) -> None:
        path = tmp_path / "spool"
        path.write_bytes(b"")
        assert storage.upload("data/empty", path).size == 0


def _race(calls: list[Callable[[], Written | Refused]]) -> list[Written | Refused]:
    """Start all calls at one barrier, a thread each; their outcomes in order."""
    barrier = threading.Barrier(len(calls))
    outcomes: list[Written | Refused | BaseException] = [Refused()] * len(calls)

    def run(number: int) -> None:
        barrier.wait()
        try:
            outcomes[number] = calls[number]()
        except BaseException as error:
            outcomes[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results: list[Written | Refused] = []
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            raise outcome
        results.append(outcome)
    return results

"""Objects and conditions on them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest

from singerlake.clock import SystemClock
from singerlake.errors import CorruptObjectError
from singerlake.storage.port import Refused, Storage, Written
from tests.storage.adapters import Opener
from tests.storage.conformance.objects import ODD_KEYS, body, keys, written


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

    def test_bodies_are_whole_or_left_to_be_opened(self, storage: Storage) -> None:
        stored = {"a/x": b"1" * 10, "a/y": b"", "b": b"2" * 11, **{key: key.encode() for key in ODD_KEYS}}
        for key, content in stored.items():
            storage.put(key, content)
        asked = ["absent", "a", "absent/x", "../x", "", "a//x", "a/\ud800", "a\0", *stored, "a/x"]
        bodies = storage.bodies(asked, 10)
        assert len(bodies) == len(asked)
        for key, found in zip(asked, bodies, strict=True):
            assert found is None or (found == stored.get(key) and len(found) <= 10)
        assert list(storage.bodies([], 10)) == []

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
        "key",
        [
            "",
            "/a",
            "a/",
            "a//b",
            "../a",
            "a/../b",
            "a/..",
            ".",
            "a/./b",
            "a\0b",
            "a/.tmp-1",
            ".singerlake.flock",
            "a\ud800",
        ],
    )
    def test_a_key_that_could_leave_the_lake_or_meet_its_own_files_is_refused(self, storage: Storage, key: str) -> None:
        operations: list[Callable[[], object]] = [
            lambda: storage.get(key),
            lambda: storage.head(key),
            lambda: storage.put(key, b""),
            lambda: storage.upload(key, Path(__file__)),
            lambda: storage.compose(key, [b"data"]),
            lambda: storage.delete_all([key]),
            lambda: storage.read_range(key, 0, 1),
            lambda: storage.beginning(key, 1),
            lambda: storage.open(key),
            lambda: storage.delete(key),
        ]
        for operation in operations:
            with pytest.raises(CorruptObjectError, match="key"):
                operation()

    @pytest.mark.parametrize("prefix", ["/", "../", "a/../", "a//b", "/a", "../x"])
    def test_a_prefix_that_could_leave_the_lake_is_refused(self, storage: Storage, prefix: str) -> None:
        with pytest.raises(CorruptObjectError):
            list(storage.list(prefix))
        with pytest.raises(CorruptObjectError):
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

    def test_many_are_removed_whether_or_not_they_are_there(self, storage: Storage) -> None:
        keys = [f"folder {number}/ü+%20&'{number}" for number in range(3)]
        for key in (*keys, "kept"):
            storage.put(key, b"1")
        storage.delete_all([*keys[:2], "absent/a", keys[2]])
        storage.delete_all([])
        assert [entry.key for entry in storage.list("")] == ["kept"]

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

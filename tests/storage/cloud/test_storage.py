"""What the storage of a cloud makes of answers that are lost, late, refused or not to be believed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from singerlake import errors
from singerlake.clock import random_id
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.lost_replies import Meaning
from singerlake.storage.patience import Patience
from singerlake.storage.port import Part, Refused, Storage, Written
from tests.storage.buckets import PatientlessClock, body, written
from tests.storage.cloud.driver import AnswerError, DriverInMemory, Fault

BUSY, LOST, DENIED, CONFLICT = Meaning.BUSY, Meaning.UNKNOWN, Meaning.FATAL, Meaning.CONFLICT
CALLS: dict[str, Callable[[Storage, Path], object]] = {
    "get": lambda storage, path: storage.get("a"),
    "head": lambda storage, path: storage.head("a"),
    "put": lambda storage, path: storage.put("new", b"1"),
    "create": lambda storage, path: storage.put("new", b"1", if_absent=True),
    "upload": lambda storage, path: storage.upload("new", path),
    "compose": lambda storage, path: storage.compose("new", [Part("a", 0, 1), b"end"]),
    "read_range": lambda storage, path: storage.read_range("a", 0, 1),
    "beginning": lambda storage, path: storage.beginning("a", 1),
    "open": lambda storage, path: storage.open("a").read(),
    "list": lambda storage, path: list(storage.list("")),
    "list_folder": lambda storage, path: storage.list_folder(""),
    "delete": lambda storage, path: storage.delete("a"),
    "delete_all": lambda storage, path: storage.delete_all(["a", "b"]),
}
MAKES: dict[str, Callable[[Storage, Path], object]] = {
    "upload": lambda storage, path: storage.upload("data", path),
    "compose": lambda storage, path: storage.compose("data", [b"lines"]),
}


class Cloud:
    """A storage, its driver, and the clock that it waits by."""

    def __init__(self, *, patience: float = 60, driver: DriverInMemory | None = None) -> None:
        self.driver = driver or DriverInMemory()
        self.clock = PatientlessClock()
        self.patience = Patience(patience, self.clock, place="memory")
        self.storage = CloudStorage(self.driver, self.patience, probe_max_wait=0, ids=random_id)

    def fail(self, request: str, means: Meaning, *, after: bool = False, times: int = 1, wait: float = 0) -> None:
        self.driver.faults.append(Fault(request, AnswerError(means, retry_after=wait), after, times))


class OneByteLess(DriverInMemory):
    """Keeps all of a body but its last byte."""

    def put(self, key: str, body: bytes, *, if_absent: bool, if_match: str | None) -> str:
        return super().put(key, body[:-1], if_absent=if_absent, if_match=if_match)


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


class TestLostReplies:
    def test_a_create_that_took_effect_is_written(self, cloud: Cloud) -> None:
        cloud.fail("put", LOST, after=True)
        etag = written(cloud.storage.put("a", b"mine", if_absent=True))
        assert cloud.driver.asked == ["put", "get"]
        assert body(cloud.storage, "a") == b"mine"
        assert isinstance(cloud.storage.put("a", b"next", if_match=etag), Written)

    def test_a_refusal_after_an_unclear_try_may_be_by_ones_own_write(self, cloud: Cloud) -> None:
        cloud.fail("put", LOST, after=True)
        cloud.fail("get", DENIED)
        assert isinstance(cloud.storage.put("a", b"mine", if_absent=True), Written)
        assert cloud.driver.asked == ["put", "get", "put", "get"]

    def test_a_create_that_was_sent_twice_is_refused_which_reading_back_tells(self, cloud: Cloud) -> None:
        cloud.fail("put", Meaning.REFUSED, after=True)
        assert isinstance(cloud.storage.put("a", b"mine", if_absent=True), Refused)
        assert cloud.driver.asked == ["put"]
        assert body(cloud.storage, "a") == b"mine"

    @pytest.mark.parametrize("after", [False, True])
    def test_a_create_that_another_won_is_refused(self, cloud: Cloud, after: bool) -> None:
        cloud.storage.put("a", b"theirs")
        cloud.fail("put", LOST, after=after)
        assert isinstance(cloud.storage.put("a", b"mine", if_absent=True), Refused)
        assert body(cloud.storage, "a") == b"theirs"

    def test_a_create_that_did_not_arrive_is_sent_again(self, cloud: Cloud) -> None:
        cloud.fail("put", LOST)
        assert isinstance(cloud.storage.put("a", b"mine", if_absent=True), Written)

    @pytest.mark.parametrize("last", [DENIED, BUSY, CONFLICT])
    def test_what_fails_after_an_unclear_try_is_an_unknown_outcome(self, cloud: Cloud, last: Meaning) -> None:
        cloud.fail("put", LOST)
        cloud.fail("put", last, times=-1)
        with pytest.raises(errors.UnknownOutcomeError, match="delete nothing; read the object"):
            cloud.storage.put("a", b"mine", if_absent=True)

    def test_a_replacement_that_did_not_arrive_is_sent_again(self, cloud: Cloud) -> None:
        etag = written(cloud.storage.put("a", b"old"))
        cloud.fail("put", LOST, times=3)
        assert isinstance(cloud.storage.put("a", b"new", if_match=etag), Written)
        assert body(cloud.storage, "a") == b"new"

    @pytest.mark.parametrize("is_gone", [False, True])
    def test_a_replacement_of_what_another_changed_is_refused(self, cloud: Cloud, is_gone: bool) -> None:
        etag = written(cloud.storage.put("a", b"old"))
        cloud.storage.delete("a") if is_gone else cloud.storage.put("a", b"theirs")
        cloud.fail("put", LOST)
        assert isinstance(cloud.storage.put("a", b"mine", if_match=etag), Refused)
        assert body(cloud.storage, "a") == (None if is_gone else b"theirs")

    def test_a_replacement_that_took_effect_is_written(self, cloud: Cloud) -> None:
        etag = written(cloud.storage.put("a", b"old"))
        cloud.fail("put", LOST, after=True)
        assert isinstance(cloud.storage.put("a", b"new", if_match=etag), Written)

    def test_an_outcome_that_cannot_be_read_back_is_unknown(self, cloud: Cloud) -> None:
        cloud.fail("put", LOST, times=-1)
        cloud.fail("get", BUSY, times=-1)
        with pytest.raises(errors.UnknownOutcomeError, match="key='a'"):
            cloud.storage.put("a", b"mine", if_absent=True)

    @pytest.mark.parametrize("after", [False, True])
    def test_a_deletion_whose_reply_was_lost_is_done(self, cloud: Cloud, after: bool) -> None:
        etag = written(cloud.storage.put("a", b"1"))
        cloud.fail("delete", LOST, after=after)
        assert cloud.storage.delete("a", if_match=etag)
        assert cloud.storage.get("a") is None

    def test_a_deletion_of_what_was_replaced_leaves_it(self, cloud: Cloud) -> None:
        old = written(cloud.storage.put("a", b"1"))
        cloud.storage.put("a", b"2")
        cloud.fail("delete", LOST)
        assert cloud.storage.delete("a", if_match=old) is False
        assert body(cloud.storage, "a") == b"2"

    def test_a_deletion_that_was_refused_since_it_had_happened_is_done(self, cloud: Cloud) -> None:
        etag = written(cloud.storage.put("a", b"1"))
        cloud.fail("delete", Meaning.REFUSED, after=True)
        assert cloud.storage.delete("a", if_match=etag)

    def test_a_deletion_that_was_sent_twice_is_done(self, cloud: Cloud) -> None:
        cloud.fail("delete", Meaning.REFUSED)
        assert cloud.storage.delete("absent", if_match="e1")

    def test_an_upload_that_arrived_is_not_sent_again(self, tmp_path: Path) -> None:
        cloud = Cloud(patience=0)
        (tmp_path / "file").write_bytes(b"lines")
        cloud.fail("put", LOST, after=True, times=-1)
        assert cloud.storage.upload("data", tmp_path / "file") == 5

    @pytest.mark.parametrize("there", [None, b"longer"])
    @pytest.mark.parametrize("call", MAKES)
    def test_an_object_that_did_not_arrive_is_an_error(self, tmp_path: Path, call: str, there: bytes | None) -> None:
        cloud = Cloud(patience=0)
        (tmp_path / "file").write_bytes(b"lines")
        if there is not None:
            cloud.storage.put("data", there)
        cloud.fail("put", LOST, times=-1)
        with pytest.raises(errors.StorageUnavailableError, match=r"could not answer.*key='data'"):
            MAKES[call](cloud.storage, tmp_path / "file")

    def test_a_composed_object_that_arrived_is_not_made_again(self) -> None:
        cloud = Cloud(patience=0)
        cloud.fail("put", LOST, after=True, times=-1)
        assert cloud.storage.compose("data", [b"li", b"nes"]).size == 5

    @pytest.mark.parametrize("call", MAKES)
    def test_an_object_of_which_storage_has_not_all_is_an_error(self, tmp_path: Path, call: str) -> None:
        cloud = Cloud(driver=OneByteLess())
        (tmp_path / "file").write_bytes(b"lines")
        with pytest.raises(errors.StorageUnavailableError, match=r"another size.*sent=5, stored=4"):
            MAKES[call](cloud.storage, tmp_path / "file")

    @pytest.mark.parametrize("there", [b"lines", None])
    def test_an_upload_whose_bytes_may_not_be_sent_is_an_error(
        self, cloud: Cloud, tmp_path: Path, there: bytes | None
    ) -> None:
        """Also where an earlier one has put the same number of bytes there."""
        (tmp_path / "file").write_bytes(b"lines")
        if there is not None:
            cloud.storage.put("data", there)

        def refuse() -> None:
            raise errors.StorageUnavailableError("the lock is on a storage that does not answer", hint="run again")

        with pytest.raises(errors.StorageUnavailableError, match="the lock"):
            cloud.storage.upload("data", tmp_path / "file", refuse)
        assert body(cloud.storage, "data") == there


class TestConflicts:
    def test_they_are_tried_again_with_growing_pauses(self, cloud: Cloud) -> None:
        cloud.fail("put", CONFLICT, times=5)
        assert isinstance(cloud.storage.put("a", b"1", if_absent=True), Written)
        assert len(cloud.clock.slept) == 5
        assert cloud.clock.slept == sorted(cloud.clock.slept)

    def test_without_end_over_a_foreign_object_they_are_a_refusal(self, cloud: Cloud) -> None:
        cloud.storage.put("a", b"theirs")
        cloud.fail("put", CONFLICT, times=-1)
        assert isinstance(cloud.storage.put("a", b"mine", if_absent=True), Refused)

    def test_without_end_over_nothing_they_change_nothing(self, cloud: Cloud) -> None:
        cloud.fail("put", CONFLICT, times=-1)
        with pytest.raises(errors.StorageUnavailableError):
            cloud.storage.put("a", b"mine", if_absent=True)
        assert cloud.storage.get("a") is None


class TestWaiting:
    @pytest.mark.parametrize("call", CALLS)
    def test_whatever_is_asked_waits_for_a_cloud_that_is_down(self, cloud: Cloud, tmp_path: Path, call: str) -> None:
        (tmp_path / "spool").write_bytes(b"1")
        cloud.storage.put("a", b"1")
        cloud.driver.is_down = lambda: cloud.clock.monotonic() < 40
        CALLS[call](cloud.storage, tmp_path / "spool")
        assert 40 <= cloud.clock.monotonic() < 50

    @pytest.mark.parametrize("call", CALLS)
    def test_one_that_stays_down_is_given_up_after_the_patience(self, cloud: Cloud, tmp_path: Path, call: str) -> None:
        (tmp_path / "spool").write_bytes(b"1")
        cloud.storage.put("a", b"1")
        cloud.driver.is_down = lambda: True
        with pytest.raises(errors.StorageUnavailableError):
            CALLS[call](cloud.storage, tmp_path / "spool")
        assert 60 <= cloud.clock.monotonic() < 62, "what is looked up afterwards does not wait as long again"

    def test_threads_give_up_together(self, cloud: Cloud) -> None:
        cloud.storage.put("a", b"1")
        cloud.driver.is_down = lambda: True

        def ask() -> None:
            with pytest.raises(errors.StorageUnavailableError):
                cloud.storage.get("a")

        with ThreadPoolExecutor(4) as threads:
            for asked in [threads.submit(ask) for _ in range(4)]:
                asked.result()
        assert 60 <= cloud.clock.monotonic() < 80

    def test_a_condition_holds_over_it(self, cloud: Cloud) -> None:
        etag = written(cloud.storage.put("a", b"theirs"))
        cloud.driver.is_down = lambda: cloud.clock.monotonic() < 10
        assert isinstance(cloud.storage.put("a", b"mine", if_absent=True), Refused)
        cloud.driver.is_down = lambda: cloud.clock.monotonic() < 20
        written(cloud.storage.put("a", b"mine", if_match=etag))
        assert body(cloud.storage, "a") == b"mine"

    @pytest.mark.parametrize("means", [BUSY, LOST])
    def test_a_read_is_asked_again(self, cloud: Cloud, means: Meaning) -> None:
        cloud.storage.put("a", b"1")
        for request in ("get", "head", "get_range", "page"):
            cloud.fail(request, means, times=2)
        assert body(cloud.storage, "a") == b"1"
        assert cloud.storage.head("a") is not None
        assert cloud.storage.read_range("a", 0, 9) == b"1"
        assert [entry.key for entry in cloud.storage.list("")] == ["a"]

    def test_what_the_server_asks_to_wait_is_waited(self, cloud: Cloud) -> None:
        cloud.fail("head", BUSY, wait=17)
        cloud.storage.head("a")
        assert cloud.clock.slept == [17]

    def test_no_longer_than_the_patience(self) -> None:
        cloud = Cloud(patience=30)
        cloud.fail("head", BUSY, wait=3600, times=-1)
        with pytest.raises(errors.StorageUnavailableError):
            cloud.storage.head("a")
        assert 30 <= cloud.clock.monotonic() < 45

    def test_reads_that_are_answered_do_not_make_writes_wait_longer(
        self, cloud: Cloud, caplog: pytest.LogCaptureFixture, tmp_path: Path
    ) -> None:
        (tmp_path / "file").write_bytes(b"1")
        cloud.storage.put("old", b"1")
        for request in ("put", "delete"):
            cloud.fail(request, LOST, times=1000)
        for write in (
            lambda: cloud.storage.put("new", b"1", if_absent=True),
            lambda: cloud.storage.delete("old"),
            lambda: cloud.storage.upload("new", tmp_path / "file"),
        ):
            with pytest.raises((errors.UnknownOutcomeError, errors.StorageUnavailableError)):
                write()
            assert body(cloud.storage, "old") == b"1"
        assert 60 <= cloud.clock.monotonic() < 63
        assert caplog.text.count("waiting for storage for 2 s now, since it answers with an error") == 1

    def test_what_is_denied_is_not_asked_again(self, cloud: Cloud) -> None:
        cloud.fail("put", DENIED)
        with pytest.raises(errors.AccessDeniedError, match="lake_root='memory://bucket/lake'"):
            cloud.storage.put("a", b"1")
        assert cloud.driver.asked == ["put"]
        assert cloud.clock.slept == []

    def test_an_error_that_is_not_the_drivers_is_raised_as_it_is(self, cloud: Cloud) -> None:
        cloud.driver.faults.append(Fault("head", ZeroDivisionError()))
        with pytest.raises(ZeroDivisionError):
            cloud.storage.head("a")


def test_what_one_request_for_many_left_is_deleted_one_by_one(cloud: Cloud) -> None:
    for key in "abc":
        cloud.storage.put(key, b"")
    cloud.fail("delete_many", DENIED)
    cloud.storage.delete_all(["a", "b", "c"])
    assert list(cloud.storage.list("")) == []


def test_a_source_that_is_away_is_named_by_its_own_key(cloud: Cloud) -> None:
    cloud.fail("get", DENIED)
    with pytest.raises(errors.AccessDeniedError, match="key='from'"):
        cloud.storage.compose("made", [Part("from", 0, 1)])


class OneAtATime(DriverInMemory):
    """Takes a condition on an ETag for one on being there, and the first of several that replace one object."""

    def __init__(self) -> None:
        super().__init__()
        self._raced: set[str] = set()

    def put(self, key: str, body: bytes, *, if_absent: bool, if_match: str | None) -> str:
        with self._lock:
            there = self._objects.get(key)
            if b"racer" in body and key in self._raced:
                raise AnswerError(Meaning.REFUSED)
            if b" late" in body:
                self._meet("late")
            if if_match is not None and there is not None:
                if_match = there.etag
            etag = super().put(key, body, if_absent=if_absent, if_match=if_match)
            if b"racer" in body:
                self._raced.add(key)
            return etag


@pytest.mark.parametrize("lost", [0, 1, 3])
def test_a_write_that_was_lost_shows_nothing_of_a_storage(lost: int) -> None:
    cloud = Cloud(driver=OneAtATime())
    cloud.fail("late", LOST, times=lost)
    assert not cloud.storage.capabilities().conditional_put


def test_two_storages_on_one_bucket_prove_once(cloud: Cloud) -> None:
    assert cloud.storage.capabilities().conditional_put
    asked = len(cloud.driver.asked)
    other = CloudStorage(cloud.driver, cloud.patience, probe_max_wait=0, ids=random_id)
    assert other.capabilities() == cloud.storage.capabilities()
    assert len(cloud.driver.asked) == asked


class OtherCloud(DriverInMemory):
    """A bucket of the same name at another maker's."""


def test_buckets_of_one_name_in_two_clouds_are_proved_each(cloud: Cloud) -> None:
    assert cloud.storage.capabilities().conditional_put
    other = OtherCloud()
    other.identity = cloud.driver.identity
    asked = CloudStorage(other, cloud.patience, probe_max_wait=0, ids=random_id)
    assert asked.capabilities().conditional_put
    assert other.asked

"""What Google Cloud Storage adds to the storage contract: lost replies, conflicts, load, servers that break rules."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake import errors
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.port import Beginning, Capabilities, Refused, Written
from tests.servers.gcs.server import ALWAYS, GcsServer
from tests.storage.buckets import PatientlessClock, body, written
from tests.storage.drivers.gcs.conftest import MakeGcs

BUSY = [
    (429, "rateLimitExceeded"),
    (403, "userRateLimitExceeded"),
    (503, "backendError"),
    (500, "internalError"),
    (503, ""),
]


class TestRequests:
    def test_each_call_is_one_request_and_nothing_is_sent_before(self, gcs: GcsServer, make: MakeGcs) -> None:
        gcs.requests()
        storage = make()
        assert gcs.requests() == []
        etag = written(storage.put("a", b"1", if_absent=True))
        storage.put("a", b"2", if_match=etag)
        storage.get("a")
        storage.head("a")
        storage.read_range("a", 0, 1)
        storage.beginning("a", 1)
        storage.list_folder("")
        list(storage.list("x"))
        assert gcs.operations() == ["insert", "insert", "media", "look", "media", "media", "list", "list"]

    def test_what_is_written_says_no_encoding_and_carries_its_checksum(
        self, gcs: GcsServer, storage: CloudStorage
    ) -> None:
        gcs.fail("insert", status=400, reason="invalid", message="Provided CRC32C does not match calculated CRC32C x.")
        written(storage.put("a", b"123"))
        seen = [request for request in gcs.requests() if request.operation == "insert"]
        assert len(seen) == 2
        assert all("content-encoding" not in request.headers for request in seen)

    def test_only_what_is_needed_is_asked_for(self, gcs: GcsServer, storage: CloudStorage) -> None:
        list(storage.list("a"))
        assert gcs.requests()[-1].query["fields"].startswith("items(")


class TestLostReplies:
    def test_a_create_whose_reply_was_lost_is_written_and_not_refused_by_itself(
        self, gcs: GcsServer, storage: CloudStorage
    ) -> None:
        gcs.requests()
        gcs.drop_reply("insert")
        etag = written(storage.put("a", b"nonce 1", if_absent=True))
        assert gcs.operations() == ["insert", "media"]
        stored = storage.get("a")
        assert stored is not None
        assert (stored.body, stored.etag) == (b"nonce 1", etag)

    def test_a_replacement_whose_reply_was_lost_is_written(self, gcs: GcsServer, storage: CloudStorage) -> None:
        etag = written(storage.put("a", b"nonce 1"))
        gcs.drop_reply("insert")
        newer = written(storage.put("a", b"nonce 2", if_match=etag))
        assert body(storage, "a") == b"nonce 2"
        assert isinstance(storage.put("a", b"nonce 3", if_match=newer), Written)

    @pytest.mark.parametrize(
        ("status", "reason"), [(500, "internalError"), (502, ""), (503, "backendError"), (408, "")]
    )
    def test_an_error_after_the_effect_is_looked_up(
        self, gcs: GcsServer, storage: CloudStorage, status: int, reason: str
    ) -> None:
        gcs.fail("insert", status=status, reason=reason, after=True)
        assert isinstance(storage.put("a", b"nonce 1", if_absent=True), Written)

    @pytest.mark.parametrize("lost", ["before", "after"])
    def test_an_unclear_create_of_what_another_made_is_refused(
        self, gcs: GcsServer, storage: CloudStorage, lost: str
    ) -> None:
        storage.put("a", b"theirs")
        if lost == "before":
            gcs.drop_request("insert")
        else:
            gcs.drop_reply("insert")
        assert isinstance(storage.put("a", b"mine", if_absent=True), Refused)
        assert body(storage, "a") == b"theirs"

    def test_a_request_that_never_arrived_is_sent_again(self, gcs: GcsServer, storage: CloudStorage) -> None:
        gcs.drop_request("insert", times=3)
        assert isinstance(storage.put("a", b"nonce 1", if_absent=True), Written)
        assert body(storage, "a") == b"nonce 1"

    def test_what_cannot_be_told_is_an_unknown_outcome(self, gcs: GcsServer, storage: CloudStorage) -> None:
        gcs.drop_reply("insert", times=ALWAYS)
        gcs.fail("media,look", status=403, reason="forbidden", times=ALWAYS)
        with pytest.raises(errors.UnknownOutcomeError, match="delete nothing"):
            storage.put("a", b"nonce 1", if_absent=True)
        gcs.calm()
        assert body(storage, "a") == b"nonce 1"

    def test_access_lost_after_an_unclear_try_is_still_an_unknown_outcome(
        self, gcs: GcsServer, storage: CloudStorage
    ) -> None:
        gcs.drop_request("insert")
        gcs.fail("insert", status=401, reason="authError", times=ALWAYS)
        with pytest.raises(errors.UnknownOutcomeError, match="does not accept the credentials"):
            storage.put("a", b"nonce 1", if_absent=True)

    def test_a_delete_whose_reply_was_lost_is_done(self, gcs: GcsServer, storage: CloudStorage) -> None:
        etag = written(storage.put("a", b"1"))
        gcs.drop_reply("delete")
        assert storage.delete("a", if_match=etag) is True
        assert storage.get("a") is None

    def test_a_delete_of_what_was_replaced_leaves_it_also_when_a_reply_is_lost(
        self, gcs: GcsServer, storage: CloudStorage
    ) -> None:
        old = written(storage.put("a", b"1"))
        storage.put("a", b"2")
        gcs.drop_reply("delete")
        assert storage.delete("a", if_match=old) is False
        assert body(storage, "a") == b"2"

    def test_a_body_that_breaks_off_is_read_again(self, gcs: GcsServer, storage: CloudStorage) -> None:
        data = bytes(range(256)) * 2000
        storage.put("a", data)
        gcs.truncate()
        assert body(storage, "a") == data
        gcs.truncate()
        assert storage.read_range("a", 1000, 400_000) == data[1000:401_000]
        gcs.truncate()
        assert storage.beginning("a", 400_000) == Beginning(data[:400_000], len(data))
        gcs.truncate()
        with storage.open("a", 100) as stream:
            assert stream.read() == data[100:]


class TestDeletingMany:
    def test_many_are_removed_in_one_request(self, gcs: GcsServer, storage: CloudStorage) -> None:
        for name in "abc":
            storage.put(name, b"1")
        gcs.requests()
        storage.delete_all(["a", "b", "absent"])
        assert gcs.operations() == ["batch"]
        assert [entry.key for entry in storage.list("")] == ["c"]

    def test_more_than_a_batch_takes_are_removed_in_several(self, gcs: GcsServer, storage: CloudStorage) -> None:
        keys = [f"ü {number}" for number in range(101)]
        storage.put(keys[0], b"1")
        storage.put(keys[100], b"1")
        gcs.requests()
        storage.delete_all(keys)
        assert gcs.operations() == ["batch", "batch"]
        assert list(storage.list("")) == []

    @pytest.mark.parametrize(("status", "reason"), [(501, ""), (404, ""), (400, "invalid"), (200, "page")])
    def test_a_server_that_knows_no_batches_is_asked_one_by_one(
        self, gcs: GcsServer, storage: CloudStorage, status: int, reason: str
    ) -> None:
        for name in "abc":
            storage.put(name, b"1")
        if status == 200:
            gcs.answer_with_a_page("batch")
        else:
            gcs.fail("batch", status=status, reason=reason, times=ALWAYS)
        gcs.requests()
        storage.delete_all(["a", "b"])
        assert gcs.operations() == ["batch", "delete", "delete"]
        assert [entry.key for entry in storage.list("")] == ["c"]

    def test_a_batch_whose_reply_was_lost_is_done(self, gcs: GcsServer, storage: CloudStorage) -> None:
        storage.put("a", b"1")
        gcs.drop_reply("batch")
        storage.delete_all(["a", "b"])
        assert list(storage.list("")) == []


class TestConflictsAndLoad:
    def test_conflicts_are_tried_again_with_growing_pauses(
        self, gcs: GcsServer, storage: CloudStorage, clock: PatientlessClock
    ) -> None:
        gcs.fail("insert", status=409, reason="conflict", times=5)
        assert isinstance(storage.put("a", b"1", if_absent=True), Written)
        assert len(clock.slept) == 5
        assert clock.slept == sorted(clock.slept)

    def test_conflicts_without_end_over_a_foreign_object_are_a_refusal(
        self, gcs: GcsServer, storage: CloudStorage
    ) -> None:
        storage.put("a", b"theirs")
        gcs.fail("insert", status=409, times=ALWAYS)
        assert isinstance(storage.put("a", b"mine", if_absent=True), Refused)

    @pytest.mark.parametrize(("status", "reason"), BUSY)
    def test_reading_waits_for_a_busy_storage(
        self, gcs: GcsServer, storage: CloudStorage, clock: PatientlessClock, status: int, reason: str
    ) -> None:
        storage.put("a", b"1")
        for look in (
            lambda: body(storage, "a") == b"1",
            lambda: storage.head("a") is not None,
            lambda: len(list(storage.list(""))) == 1,
            lambda: storage.open("a").read() == b"1",
        ):
            gcs.fail("media,look,list", status=status, reason=reason, times=9)
            clock.slept.clear()
            assert look()
            assert len(clock.slept) == 9
            assert max(clock.slept) <= 5

    def test_writes_to_one_object_that_come_too_fast_are_sent_again(
        self, gcs: GcsServer, storage: CloudStorage
    ) -> None:
        etag = written(storage.put("a", b"1"))
        message = "The object bucket/lake/a exceeded the rate limit for object mutation operations."
        gcs.fail("insert", status=429, reason="rateLimitExceeded", message=message, times=3)
        gcs.requests()
        written(storage.put("a", b"2", if_match=etag))
        assert gcs.operations() == ["insert"] * 4, "429 says that nothing happened"

    @pytest.mark.parametrize("asked", ["7", "Wed, 01 Jan 2031 00:00:00 GMT"])
    def test_storage_is_given_the_time_that_it_asks_for(
        self, gcs: GcsServer, storage: CloudStorage, clock: PatientlessClock, asked: str
    ) -> None:
        gcs.fail("look", status=503, reason="backendError", retry_after=asked, times=3 if asked == "7" else 1)
        storage.head("a")
        assert clock.slept == ([7.0] * 3 if asked == "7" else [60.0])

    @pytest.mark.parametrize("call", ["read_range", "put"])
    def test_a_storage_that_stays_busy_is_given_up_after_the_patience(
        self, gcs: GcsServer, storage: CloudStorage, clock: PatientlessClock, call: str
    ) -> None:
        gcs.fail("media,insert", status=429, reason="rateLimitExceeded", times=ALWAYS)
        with pytest.raises(errors.StorageUnavailableError, match=r"run again later.*waited_seconds=60"):
            storage.read_range("a", 0, 1) if call == "read_range" else storage.put("a", b"1")
        assert sum(clock.slept) == pytest.approx(60)

    def test_a_refusal_is_one_request(self, gcs: GcsServer, storage: CloudStorage) -> None:
        storage.put("a", b"1")
        gcs.requests()
        assert isinstance(storage.put("a", b"2", if_absent=True), Refused)
        assert gcs.operations() == ["insert"]


class TestServersThatBreakTheRules:
    def test_an_honest_server_is_seen_as_such_once_and_left_clean(self, gcs: GcsServer, make: MakeGcs) -> None:
        storage = make()
        assert storage.capabilities() == Capabilities(conditional_put=True, conditional_delete=True)
        assert list(storage.list("")) == []
        gcs.requests()
        assert make().capabilities() == Capabilities(conditional_put=True, conditional_delete=True)
        assert gcs.requests() == []

    @pytest.mark.parametrize("ignored", ["insert", "insert,delete"])
    def test_a_server_that_ignores_conditions_is_found_out(
        self, gcs: GcsServer, storage: CloudStorage, ignored: str
    ) -> None:
        gcs.ignore_conditions(ignored)
        assert not storage.capabilities().conditional_put

    def test_a_server_that_ignores_the_condition_of_a_delete_is_found_out(
        self, gcs: GcsServer, storage: CloudStorage
    ) -> None:
        gcs.ignore_conditions("delete")
        assert storage.capabilities() == Capabilities(conditional_put=True, conditional_delete=False)

    def test_a_server_that_does_not_know_conditions_is_found_out_and_says_so(
        self, gcs: GcsServer, storage: CloudStorage
    ) -> None:
        gcs.fail("insert,delete", status=501, times=ALWAYS, conditional_only=True)
        assert not storage.capabilities().takes_conditions
        with pytest.raises(errors.ConditionNotSupportedError, match="does not know"):
            storage.put("a", b"1", if_absent=True)

    def test_a_probe_needs_no_right_to_delete(self, gcs: GcsServer, storage: CloudStorage) -> None:
        gcs.fail("delete,batch", status=403, reason="forbidden", times=ALWAYS)
        assert storage.capabilities() == Capabilities(conditional_put=True, conditional_delete=False)

    def test_a_delete_refused_since_it_had_happened_is_done(self, gcs: GcsServer, storage: CloudStorage) -> None:
        etag = written(storage.put("a", b"1"))
        gcs.fail("delete", status=412, reason="conditionNotMet", after=True)
        assert storage.delete("a", if_match=etag)

    def test_a_replacement_refused_as_not_found_is_refused(self, gcs: GcsServer, storage: CloudStorage) -> None:
        gcs.fail("insert", status=404, reason="notFound", message="No such object: bucket/lake/a")
        assert isinstance(storage.put("a", b"1", if_match="1"), Refused)

    @pytest.mark.parametrize("operation", ["media", "look", "list", "insert"])
    def test_what_answers_everything_with_a_page_is_no_storage(
        self, gcs: GcsServer, storage: CloudStorage, tmp_path: Path, operation: str
    ) -> None:
        calls = {
            "media": lambda: storage.get("a"),
            "look": lambda: storage.head("a"),
            "list": lambda: list(storage.list("")),
            "insert": lambda: storage.put("a", b"1"),
        }
        gcs.answer_with_a_page(operation)
        with pytest.raises(errors.SettingError, match="not Google Cloud Storage; check gcs_endpoint_url"):
            calls[operation]()

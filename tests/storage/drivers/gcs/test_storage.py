"""What Google Cloud Storage adds to the storage contract: lost replies, conflicts, load, servers that break rules."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.api_core.exceptions import GoogleAPICallError
from requests.exceptions import RequestException

from singerlake import errors
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.lost_replies import Meaning
from singerlake.storage.port import Beginning, Capabilities, Refused
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
    @pytest.mark.parametrize("operation", ["insert", "media"])
    @pytest.mark.parametrize(
        ("status", "reason", "means"),
        [
            ("request", "dropped", Meaning.UNKNOWN),
            ("reply", "dropped", Meaning.UNKNOWN),
            (500, "internalError", Meaning.UNKNOWN),
            (502, "", Meaning.UNKNOWN),
            (503, "", Meaning.UNKNOWN),
            (503, "backendError", Meaning.UNKNOWN),
            (408, "", Meaning.UNKNOWN),
            (429, "rateLimitExceeded", Meaning.BUSY),
            (429, "", Meaning.BUSY),
            (403, "userRateLimitExceeded", Meaning.BUSY),
            (409, "conflict", Meaning.CONFLICT),
            (409, "", Meaning.CONFLICT),
            (412, "conditionNotMet", Meaning.REFUSED),
            (403, "forbidden", Meaning.FATAL),
            (401, "authError", Meaning.FATAL),
            (501, "", Meaning.FATAL),
        ],
    )
    def test_what_an_answer_is_taken_for(
        self,
        gcs: GcsServer,
        storage: CloudStorage,
        operation: str,
        status: int | str,
        reason: str,
        means: Meaning,
    ) -> None:
        driver = storage._driver
        driver.put("a", b"1", if_absent=False, if_match=None)
        if isinstance(status, int):
            gcs.fail(operation, status=status, reason=reason)
        elif status == "request":
            gcs.drop_request(operation)
        else:
            gcs.drop_reply(operation)
        with pytest.raises((GoogleAPICallError, RequestException)) as failed:
            driver.get("a") if operation == "media" else driver.put("a", b"1", if_absent=False, if_match=None)
        assert driver.errors.meaning(failed.value) is means

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

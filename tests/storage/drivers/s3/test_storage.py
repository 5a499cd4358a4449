"""What S3 adds to the storage contract: lost replies, conflicts, load, stores that break the rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from botocore.exceptions import BotoCoreError, ClientError

from singerlake import errors
from singerlake.storage.cloud.driver import Driver
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.lost_replies import Meaning
from singerlake.storage.port import Beginning, Capabilities, Refused, Written
from tests.servers.s3 import ALWAYS, S3Server
from tests.storage.buckets import Make, PatientlessClock, body, written


@pytest.mark.parametrize(("size", "waits"), [(0, False), (1 << 20, False), ((1 << 20) + 1, True), (17 << 20, True)])
def test_only_a_large_conditional_write_waits_for_the_server_s_consent(
    s3: S3Server, storage: CloudStorage, tmp_path: Path, size: int, waits: bool
) -> None:
    spool = tmp_path / "spool"
    spool.write_bytes(bytes(size))
    s3.requests()
    storage.put("put", bytes(size), if_absent=True)
    storage.put("any", bytes(size))
    storage.upload("uploaded", spool)
    asked = ["expect" in request.headers for request in s3.requests() if request.method == "PUT"]
    assert asked == [waits, False, False]


@pytest.mark.parametrize("call", ["put", "upload"])
@pytest.mark.parametrize("fault", ["an answer", "none"])
def test_a_body_whose_connection_broke_waits_for_it(
    s3: S3Server, storage: CloudStorage, tmp_path: Path, call: str, fault: str
) -> None:
    (tmp_path / "spool").write_bytes(b"body")
    if fault == "none":
        s3.drop_request("PUT", times=2)
    else:
        s3.fail("PUT", status=503, code="SlowDown", times=2)
    s3.requests()
    if call == "put":
        storage.put("a", b"body", if_absent=True)
    else:
        storage.upload("a", tmp_path / "spool")
    asked = ["expect" in request.headers for request in s3.requests() if request.method == "PUT"]
    assert asked == [False, fault == "none", fault == "none"]
    assert body(storage, "a") == b"body"


@pytest.mark.parametrize("call", ["put", "upload"])
def test_an_empty_body_waits_for_nothing(s3: S3Server, storage: CloudStorage, tmp_path: Path, call: str) -> None:
    (tmp_path / "spool").write_bytes(b"")
    s3.drop_request("PUT")
    s3.requests()
    if call == "put":
        storage.put("a", b"")
    else:
        storage.upload("a", tmp_path / "spool")
    assert ["expect" in request.headers for request in s3.requests() if request.method == "PUT"] == [False, False]


REQUESTS: Mapping[str, Callable[[Driver], object]] = {
    "get": lambda driver: driver.get("a"),
    "head": lambda driver: driver.head("a"),
    "put": lambda driver: driver.put("a", b"1", if_absent=True, if_match=None),
    "delete": lambda driver: driver.delete("a", if_match=None),
    "delete_many": lambda driver: driver.delete_many(["a"]),
    "page": lambda driver: driver.page("", folders=False, start_after="", token=None),
}


class TestLostReplies:
    @pytest.mark.parametrize("request_of", list(REQUESTS))
    @pytest.mark.parametrize("fault", ["busy", "error", "no answer", "no reply"])
    def test_a_driver_sends_each_request_once(
        self, s3: S3Server, storage: CloudStorage, request_of: str, fault: str
    ) -> None:
        methods = "PUT,POST,DELETE,GET,HEAD"
        if fault in ("busy", "error"):
            s3.fail(methods, status=503 if fault == "busy" else 500, code="SlowDown", times=2)
        elif fault == "no answer":
            s3.drop_request(methods, times=2)
        else:
            s3.drop_reply(methods, times=2)
        s3.requests()
        for _ in range(2):
            with pytest.raises((ClientError, BotoCoreError)):
                REQUESTS[request_of](storage._driver)
            assert len(s3.requests()) == 1

    @pytest.mark.parametrize("method", ["PUT", "GET"])
    @pytest.mark.parametrize(
        ("status", "code", "means"),
        [
            ("dropped", "request", Meaning.UNKNOWN),
            ("dropped", "reply", Meaning.UNKNOWN),
            (500, "InternalError", Meaning.UNKNOWN),
            (500, "UnknownError", Meaning.UNKNOWN),
            (500, "", Meaning.UNKNOWN),
            (503, "", Meaning.UNKNOWN),
            (503, "SlowDown", Meaning.BUSY),
            (429, "TooManyRequests", Meaning.BUSY),
            (429, "", Meaning.BUSY),
            (409, "ConditionalRequestConflict", Meaning.CONFLICT),
            (409, "", Meaning.CONFLICT),
            (412, "PreconditionFailed", Meaning.REFUSED),
            (412, "", Meaning.REFUSED),
            (403, "ExpiredToken", Meaning.FATAL),
            (501, "", Meaning.FATAL),
        ],
    )
    def test_what_an_answer_is_taken_for(
        self, s3: S3Server, storage: CloudStorage, method: str, status: int | str, code: str, means: Meaning
    ) -> None:
        if isinstance(status, int):
            s3.fail(method, status=status, code=code)
        elif code == "request":
            s3.drop_request(method)
        else:
            s3.drop_reply(method)
        driver = storage._driver
        with pytest.raises((ClientError, BotoCoreError)) as failed:
            REQUESTS[method.lower()](driver)
        assert driver.errors.meaning(failed.value) is means

    def test_a_create_whose_reply_was_lost_is_written_and_not_refused_by_itself(
        self, s3: S3Server, storage: CloudStorage
    ) -> None:
        s3.requests()
        s3.drop_reply("PUT")
        etag = written(storage.put("a", b"nonce 1", if_absent=True))
        assert [request.method for request in s3.requests()] == ["PUT", "GET"]
        stored = storage.get("a")
        assert stored is not None
        assert (stored.body, stored.etag) == (b"nonce 1", etag)

    def test_many_are_removed_in_one_request(self, s3: S3Server, storage: CloudStorage) -> None:
        for name in "abc":
            storage.put(name, b"1")
        s3.requests()
        storage.delete_all(["a", "b", "absent"])
        assert [request.method for request in s3.requests()] == ["POST"]
        assert [entry.key for entry in storage.list("")] == ["c"]

    @pytest.mark.parametrize(("status", "code"), [(501, "NotImplemented"), (400, "InvalidRequest"), (503, "SlowDown")])
    def test_a_store_that_removes_one_at_a_time_is_asked_so(
        self, s3: S3Server, storage: CloudStorage, status: int, code: str
    ) -> None:
        for name in "abc":
            storage.put(name, b"1")
        s3.fail("POST", status=status, code=code, times=ALWAYS)
        s3.requests()
        storage.delete_all(["a", "b"])
        assert [request.method for request in s3.requests()] == ["POST", "DELETE", "DELETE"]
        assert [entry.key for entry in storage.list("")] == ["c"]

    def test_what_may_not_be_removed_is_an_error_that_says_so(self, s3: S3Server, storage: CloudStorage) -> None:
        storage.put("a", b"1")
        s3.fail("POST,DELETE", status=403, code="AccessDenied", times=ALWAYS)
        with pytest.raises(errors.AccessDeniedError, match="s3:DeleteObject"):
            storage.delete_all(["a"])

    def test_a_body_that_breaks_off_is_read_again(self, s3: S3Server, storage: CloudStorage) -> None:
        data = bytes(range(256)) * 2000
        storage.put("a", data)
        s3.truncate()
        assert body(storage, "a") == data
        s3.truncate()
        assert storage.read_range("a", 1000, 400_000) == data[1000:401_000]
        s3.truncate()
        assert storage.beginning("a", 400_000) == Beginning(data[:400_000], len(data))
        s3.truncate()
        with storage.open("a", 100) as stream:
            assert stream.read() == data[100:]


class TestConflictsAndLoad:
    @pytest.mark.parametrize("call", ["read_range", "put"])
    def test_a_storage_that_stays_busy_is_given_up_after_the_patience(
        self, s3: S3Server, storage: CloudStorage, clock: PatientlessClock, call: str
    ) -> None:
        s3.fail("GET,PUT", status=503, code="SlowDown", times=ALWAYS)
        with pytest.raises(errors.StorageUnavailableError, match=r"run again later.*waited_seconds=60"):
            storage.read_range("a", 0, 1) if call == "read_range" else storage.put("a", b"1")
        assert sum(clock.slept) == pytest.approx(60)


class TestStoresThatBreakTheRules:
    def test_an_honest_store_is_seen_as_such_once_and_left_clean(self, s3: S3Server, make: Make) -> None:
        storage = make()
        assert storage.capabilities() == Capabilities(conditional_put=True, conditional_delete=True)
        assert list(storage.list("")) == []
        s3.requests()
        assert make().capabilities() == Capabilities(conditional_put=True, conditional_delete=True)
        assert s3.requests() == []

    def test_a_store_that_ignores_conditions_is_found_out(self, s3: S3Server, storage: CloudStorage) -> None:
        s3.ignore_conditions()
        assert storage.capabilities() == Capabilities(conditional_put=False, conditional_delete=False)

    def test_a_store_that_ignores_the_condition_of_a_delete_is_found_out(
        self, s3: S3Server, storage: CloudStorage
    ) -> None:
        s3.ignore_conditions("DELETE")
        assert storage.capabilities() == Capabilities(conditional_put=True, conditional_delete=False)

    @pytest.mark.parametrize("honest", [True, False])
    def test_a_delete_that_was_lost_shows_nothing_of_a_store(
        self, s3: S3Server, storage: CloudStorage, honest: bool
    ) -> None:
        s3.drop_request("DELETE", key_contains="/deleted")
        if not honest:
            s3.ignore_conditions("DELETE")
        assert storage.capabilities() == Capabilities(conditional_put=True, conditional_delete=honest)

    def test_a_store_that_does_not_know_conditions_is_found_out_and_says_so(
        self, s3: S3Server, storage: CloudStorage
    ) -> None:
        s3.fail("PUT,DELETE", status=501, code="NotImplemented", times=ALWAYS, conditional_only=True)
        assert storage.capabilities() == Capabilities(
            conditional_put=False, conditional_delete=False, takes_conditions=False
        )
        with pytest.raises(errors.SettingError, match="does not know"):
            storage.put("a", b"1", if_absent=True)

    def test_that_a_store_ignores_conditions_is_proved_again_once_it_refuses_one(
        self, s3: S3Server, storage: CloudStorage
    ) -> None:
        s3.ignore_conditions()
        assert not storage.capabilities().conditional_put
        s3.calm()
        assert not storage.capabilities().conditional_put
        assert s3.requests() == []
        storage.put("a", b"1")
        assert isinstance(storage.put("a", b"2", if_absent=True), Refused)
        assert storage.capabilities() == Capabilities(conditional_put=True, conditional_delete=True)

    def test_that_a_store_ignores_conditions_is_proved_again_after_a_while(
        self, s3: S3Server, storage: CloudStorage, clock: PatientlessClock
    ) -> None:
        s3.ignore_conditions()
        assert not storage.capabilities().conditional_put
        s3.calm()
        clock.sleep(60)
        assert storage.capabilities().conditional_put

    def test_a_store_that_honoured_conditions_is_believed_until_the_contrary_is_proved(
        self, s3: S3Server, storage: CloudStorage, clock: PatientlessClock
    ) -> None:
        assert storage.capabilities().conditional_put
        clock.sleep(3600)
        s3.requests()
        s3.fail("PUT", status=412, code="PreconditionFailed", times=ALWAYS, conditional_only=True)
        assert storage.capabilities().conditional_put
        assert s3.requests() != []
        s3.calm()
        s3.ignore_conditions()
        clock.sleep(3600)
        assert not storage.capabilities().conditional_put

    def test_a_store_that_refuses_everything_is_asked_until_the_setting_s_time_is_over(
        self, s3: S3Server, make: Make, clock: PatientlessClock
    ) -> None:
        s3.fail("PUT", status=412, code="PreconditionFailed", times=ALWAYS, conditional_only=True)
        with pytest.raises(errors.ConditionsUnprovenError, match="s3_probe_max_wait_seconds"):
            make(probe_max_wait=30).capabilities()
        assert 30 <= clock.monotonic() < 40

    def test_a_store_that_wants_bare_etags_gets_them(self, s3: S3Server, storage: CloudStorage) -> None:
        s3.refuse_quoted_etags()
        etag = written(storage.put("a", b"1"))
        newer = written(storage.put("a", b"2", if_match=etag))
        assert isinstance(storage.put("a", b"3", if_match=etag), Refused)
        s3.requests()
        assert isinstance(storage.put("a", b"4", if_match=newer), Written)
        assert [request.method for request in s3.requests()] == ["PUT"]
        assert storage.capabilities().conditional_put

    def test_a_probe_needs_no_right_to_delete(self, s3: S3Server, storage: CloudStorage) -> None:
        s3.fail("DELETE,POST", status=403, code="AccessDenied", times=ALWAYS)
        assert storage.capabilities() == Capabilities(conditional_put=True, conditional_delete=False)
        left = {
            entry.key.rpartition("/")[2].rpartition("-")[0] or "object" for entry in storage.list("_singerlake_probe/")
        }
        assert left == {"object", "one-winner"}
        assert all(entry.size for entry in storage.list("_singerlake_probe/"))

    def test_a_probe_asks_thirty_times(self, s3: S3Server, storage: CloudStorage) -> None:
        """A run waits for it, though most are sent at once."""
        s3.requests()
        storage.capabilities()
        assert len(s3.requests()) == 30

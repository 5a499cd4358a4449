"""What Azure adds to the storage contract: lost replies, conflicts, load."""

from __future__ import annotations

from pathlib import Path

import pytest
from azure.core.exceptions import AzureError

from singerlake import errors
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.azure.driver import AzureDriver
from singerlake.storage.lost_replies import Meaning
from singerlake.storage.port import Beginning, Capabilities, Refused, Written
from tests.servers.azurite import Azurite
from tests.servers.fault_proxy.proxy import ALWAYS, FaultProxy
from tests.storage.buckets import PatientlessClock, body, written
from tests.storage.drivers.azure.opening import Make, opened

OF_A = r"lake/a\b"
PUT, GET, DELETE = f"^PUT .*{OF_A}", f"^GET .*{OF_A}", f"^DELETE .*{OF_A}"


def asked(proxy: FaultProxy) -> list[str]:
    return [line.partition(" ")[0] for line in proxy.seen()]


class TestLostReplies:
    @pytest.mark.parametrize("request_of", [PUT, GET])
    @pytest.mark.parametrize(
        ("status", "code", "means"),
        [
            ("request", "dropped", Meaning.UNKNOWN),
            ("reply", "dropped", Meaning.UNKNOWN),
            (500, "InternalError", Meaning.UNKNOWN),
            (500, "OperationTimedOut", Meaning.UNKNOWN),
            (502, "", Meaning.UNKNOWN),
            (503, "", Meaning.UNKNOWN),
            (408, "", Meaning.UNKNOWN),
            (503, "ServerBusy", Meaning.BUSY),
            (429, "TooManyRequests", Meaning.BUSY),
            (429, "", Meaning.BUSY),
            (409, "OperationInProgress", Meaning.CONFLICT),
            (409, "", Meaning.CONFLICT),
            (412, "ConditionNotMet", Meaning.REFUSED),
            (412, "", Meaning.REFUSED),
            (403, "AuthenticationFailed", Meaning.FATAL),
            (501, "", Meaning.FATAL),
        ],
    )
    def test_what_an_answer_is_taken_for(
        self,
        proxy: FaultProxy,
        storage: CloudStorage,
        request_of: str,
        status: int | str,
        code: str,
        means: Meaning,
    ) -> None:
        driver = storage._driver
        driver.put("a", b"1", if_absent=False, if_match=None)
        if isinstance(status, int):
            proxy.error(request_of, status=status, code=code)
        else:
            proxy.drop(request_of, after=status == "reply")
        with pytest.raises(AzureError) as failed:
            driver.get("a") if request_of == GET else driver.put("a", b"2", if_absent=False, if_match=None)
        assert driver.errors.meaning(failed.value) is means

    @pytest.mark.parametrize("times", [1, 3])
    def test_a_request_that_broke_off_is_sent_again(self, proxy: FaultProxy, storage: CloudStorage, times: int) -> None:
        proxy.cut_request(PUT, times=times)
        assert isinstance(storage.put("a", b"nonce 1", if_absent=True), Written)
        assert body(storage, "a") == b"nonce 1"

    def test_a_create_whose_reply_was_lost_is_written_and_not_refused_by_itself(
        self, proxy: FaultProxy, storage: CloudStorage
    ) -> None:
        proxy.drop(PUT, after=True)
        etag = written(storage.put("a", b"nonce 1", if_absent=True))
        assert asked(proxy) == ["PUT", "GET"]
        stored = storage.get("a")
        assert stored is not None
        assert (stored.body, stored.etag) == (b"nonce 1", etag)

    def test_many_are_removed_in_one_request_or_one_by_one(self, proxy: FaultProxy, storage: CloudStorage) -> None:
        for refused in (False, True):
            for name in "abc":
                storage.put(name, b"1")
            if refused:
                proxy.error("^POST ", status=403, code="AuthorizationFailure")
            proxy.seen()
            storage.delete_all(["a", "b", "absent"])
            assert asked(proxy)[0] == "POST"
            assert [entry.key for entry in storage.list("")] == ["c"]

    def test_a_body_that_breaks_off_is_read_again(self, proxy: FaultProxy, storage: CloudStorage) -> None:
        data = bytes(range(256)) * 2000
        storage.put("a", data)
        for read, expected in (
            (lambda: body(storage, "a"), data),
            (lambda: storage.read_range("a", 1000, 400_000), data[1000:401_000]),
            (lambda: storage.beginning("a", 400_000), Beginning(data[:400_000], len(data))),
            (lambda: storage.open("a", 100).read(), data[100:]),
        ):
            cut = proxy.cut_reply(GET)
            assert read() == expected  # type: ignore[no-untyped-call]
            assert cut.hits == 1


class TestConflictsAndLoad:
    @pytest.mark.parametrize(
        ("header", "value", "seconds"),
        [("Retry-After", "7", 7), ("x-ms-retry-after-ms", "1500", 1.5), ("Retry-After", "Wed, 21 Oct 2026", 0)],
    )
    def test_the_server_says_how_long_to_wait(
        self, proxy: FaultProxy, storage: CloudStorage, clock: PatientlessClock, header: str, value: str, seconds: float
    ) -> None:
        proxy.error(PUT, status=503, code="ServerBusy", headers={header: value}, times=3)
        assert isinstance(storage.put("a", b"1", if_absent=True), Written)
        assert len(clock.slept) == 3
        assert min(clock.slept) >= seconds

    def test_a_storage_that_stays_busy_is_given_up_and_nothing_has_happened(
        self, proxy: FaultProxy, storage: CloudStorage, clock: PatientlessClock
    ) -> None:
        proxy.error(PUT, status=503, code="ServerBusy", times=ALWAYS)
        with pytest.raises(errors.StorageUnavailableError, match=r"run again later.*ServerBusy.*waited_seconds=60"):
            storage.put("a", b"1", if_absent=True)
        assert sum(clock.slept) == pytest.approx(60)
        proxy.calm()
        assert storage.get("a") is None

    @pytest.mark.parametrize("status", [500, 503])
    def test_the_library_repeats_nothing_by_itself(
        self, proxy: FaultProxy, make: Make, clock: PatientlessClock, status: int
    ) -> None:
        storage = make()
        storage.put("a", b"1")
        proxy.seen()
        proxy.error("lake/", status=status, code="ServerBusy", times=1)
        assert body(storage, "a") == b"1"
        proxy.drop("lake/", after=False)
        assert body(storage, "a") == b"1"
        assert isinstance(storage.put("a", b"2", if_absent=True), Refused)
        assert asked(proxy) == ["GET", "GET", "GET", "GET", "PUT"]


def test_conditions_are_proved_once_and_the_probe_leaves_nothing(
    proxy: FaultProxy, storage: CloudStorage, make: Make
) -> None:
    assert storage.capabilities() == Capabilities(conditional_put=True, conditional_delete=True)
    assert list(storage.list("")) == []
    proxy.seen()
    assert make().capabilities() == Capabilities(conditional_put=True, conditional_delete=True)
    assert proxy.seen() == []


def test_no_encoding_is_noted_beside_an_object(proxy: FaultProxy, storage: CloudStorage, tmp_path: Path) -> None:
    (tmp_path / "data.gz").write_bytes(b"\x1f\x8b data")
    storage.upload("data.gz", tmp_path / "data.gz")
    driver = storage._driver
    found = driver._blob("data.gz").get_blob_properties()  # type: ignore[attr-defined]
    assert found.content_settings.content_encoding in (None, "")


def test_an_object_that_another_noted_an_encoding_of_is_read_as_it_is(storage: CloudStorage) -> None:
    from azure.storage.blob import ContentSettings

    blob = storage._driver._blob("foreign")  # type: ignore[attr-defined]
    blob.upload_blob(b"not gzip at all", content_settings=ContentSettings(content_encoding="gzip"))
    assert body(storage, "foreign") == b"not gzip at all"
    assert storage.read_range("foreign", 4, 4) == b"gzip"


def test_what_a_legal_hold_keeps_is_named_and_the_rest_is_removed(proxy: FaultProxy, storage: CloudStorage) -> None:
    for name in "abc":
        storage.put(name, b"1")
    proxy.error("^POST ", status=409, code="BlobImmutableDueToPolicy", times=ALWAYS)
    proxy.error("^DELETE .*lake/b", status=409, code="BlobImmutableDueToPolicy", times=ALWAYS)
    with pytest.raises(errors.AccessDeniedError, match=r"legal hold.*a later run removes what was left.*key='b'"):
        storage.delete_all(["a", "b", "c"])
    assert [entry.key for entry in storage.list("")] == ["b", "c"]
    assert not isinstance(storage.put("b", b"2"), Refused)


def test_a_lake_may_be_a_whole_container(azurite_session: Azurite, container: str, clock: PatientlessClock) -> None:
    storage = opened(AzureDriver(container, "", azurite_session.settings()), clock)
    storage.put("a/b.", b"1")
    assert [entry.key for entry in storage.list("")] == ["a/b."]
    assert storage.list_folder("").folders == ("a/",)
    assert storage.url == f"az://{container}"


@pytest.mark.parametrize("after", [False, True])
def test_a_batch_whose_reply_was_lost_is_done_one_by_one(proxy: FaultProxy, storage: CloudStorage, after: bool) -> None:
    for name in ("a", "b", "caf\udce9"):
        storage.put(name, b"1")
    proxy.drop("^POST ", after=after)
    storage.delete_all(["a", "caf\udce9"])
    assert [entry.key for entry in storage.list("")] == ["b"]

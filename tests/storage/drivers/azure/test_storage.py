"""What Azure adds to the storage contract: lost replies, conflicts, load."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from singerlake import errors
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.azure.driver import AzureDriver
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
    def test_a_create_whose_reply_was_lost_is_written_and_not_refused_by_itself(
        self, proxy: FaultProxy, storage: CloudStorage
    ) -> None:
        proxy.drop(PUT, after=True)
        etag = written(storage.put("a", b"nonce 1", if_absent=True))
        assert asked(proxy) == ["PUT", "GET"]
        stored = storage.get("a")
        assert stored is not None
        assert (stored.body, stored.etag) == (b"nonce 1", etag)

    def test_a_replacement_whose_reply_was_lost_is_written(self, proxy: FaultProxy, storage: CloudStorage) -> None:
        etag = written(storage.put("a", b"nonce 1"))
        proxy.drop(PUT, after=True)
        assert isinstance(storage.put("a", b"nonce 2", if_match=etag), Written)
        assert body(storage, "a") == b"nonce 2"
        assert isinstance(storage.put("a", b"nonce 3", if_match=etag), Refused)

    @pytest.mark.parametrize(
        ("status", "code"), [(500, "InternalError"), (500, "OperationTimedOut"), (502, ""), (503, "")]
    )
    def test_an_error_after_the_effect_is_looked_up(
        self, proxy: FaultProxy, storage: CloudStorage, status: int, code: str
    ) -> None:
        proxy.error(PUT, status=status, code=code, after=True)
        assert isinstance(storage.put("a", b"nonce 1", if_absent=True), Written)

    def test_a_reply_that_breaks_off_is_an_unclear_one(self, proxy: FaultProxy, storage: CloudStorage) -> None:
        proxy.cut_reply(PUT)
        assert isinstance(storage.put("a", b"nonce 1", if_absent=True), Written)
        assert body(storage, "a") == b"nonce 1"

    @pytest.mark.parametrize("after", [False, True])
    def test_an_unclear_create_of_what_another_made_is_refused(
        self, proxy: FaultProxy, storage: CloudStorage, after: bool
    ) -> None:
        storage.put("a", b"theirs")
        proxy.drop(PUT, after=after)
        assert isinstance(storage.put("a", b"mine", if_absent=True), Refused)
        assert body(storage, "a") == b"theirs"

    @pytest.mark.parametrize("fault", ["drop", "cut"])
    def test_a_request_that_never_arrived_is_sent_again(
        self, proxy: FaultProxy, storage: CloudStorage, fault: str
    ) -> None:
        proxy.drop(PUT, after=False, times=3) if fault == "drop" else proxy.cut_request(PUT, times=3)
        assert isinstance(storage.put("a", b"nonce 1", if_absent=True), Written)
        assert body(storage, "a") == b"nonce 1"

    def test_a_create_that_was_sent_twice_is_refused_which_reading_back_tells(
        self, proxy: FaultProxy, storage: CloudStorage
    ) -> None:
        proxy.twice(PUT)
        assert isinstance(storage.put("a", b"nonce 1", if_absent=True), Refused)
        assert body(storage, "a") == b"nonce 1"

    def test_what_cannot_be_told_is_an_unknown_outcome(self, proxy: FaultProxy, storage: CloudStorage) -> None:
        proxy.drop(PUT, after=True, times=ALWAYS)
        proxy.error("^(GET|HEAD) ", status=403, code="AuthorizationFailure", times=ALWAYS)
        with pytest.raises(errors.UnknownOutcomeError, match="delete nothing"):
            storage.put("a", b"nonce 1", if_absent=True)
        proxy.calm()
        assert body(storage, "a") == b"nonce 1"

    def test_access_lost_after_an_unclear_try_is_still_an_unknown_outcome(
        self, proxy: FaultProxy, storage: CloudStorage
    ) -> None:
        proxy.drop(PUT, after=False)
        proxy.error(PUT, status=403, code="AuthenticationFailed", times=ALWAYS)
        with pytest.raises(errors.UnknownOutcomeError, match="AuthenticationFailed"):
            storage.put("a", b"nonce 1", if_absent=True)

    @pytest.mark.parametrize("after", [False, True])
    def test_a_delete_whose_reply_was_lost_is_done(self, proxy: FaultProxy, storage: CloudStorage, after: bool) -> None:
        etag = written(storage.put("a", b"1"))
        proxy.drop(DELETE, after=after)
        assert storage.delete("a", if_match=etag) is True
        assert storage.get("a") is None

    def test_a_delete_refused_since_it_had_happened_is_done(self, proxy: FaultProxy, storage: CloudStorage) -> None:
        etag = written(storage.put("a", b"1"))
        proxy.error(DELETE, status=412, code="ConditionNotMet", after=True)
        assert storage.delete("a", if_match=etag)

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
    def test_conflicts_are_tried_again_with_growing_pauses(
        self, proxy: FaultProxy, storage: CloudStorage, clock: PatientlessClock
    ) -> None:
        proxy.error(PUT, status=409, code="OperationInProgress", times=5)
        assert isinstance(storage.put("a", b"1", if_absent=True), Written)
        assert len(clock.slept) == 5
        assert clock.slept == sorted(clock.slept)

    def test_conflicts_without_end_over_a_foreign_object_are_a_refusal(
        self, proxy: FaultProxy, storage: CloudStorage
    ) -> None:
        storage.put("a", b"theirs")
        proxy.error(PUT, status=409, code="", times=ALWAYS)
        assert isinstance(storage.put("a", b"mine", if_absent=True), Refused)

    @pytest.mark.parametrize(
        ("status", "code"),
        [(503, "ServerBusy"), (429, "TooManyRequests"), (429, ""), (500, "InternalError"), (504, "")],
    )
    def test_reading_waits_as_long_as_writing_for_a_busy_storage(
        self, proxy: FaultProxy, storage: CloudStorage, clock: PatientlessClock, status: int, code: str
    ) -> None:
        storage.put("a", b"1")
        looks: list[Callable[[], bool]] = [
            lambda: body(storage, "a") == b"1",
            lambda: storage.head("a") is not None,
            lambda: len(list(storage.list(""))) == 1,
        ]
        for look in looks:
            storm = proxy.error("^(GET|HEAD) ", status=status, code=code, times=9)
            clock.slept.clear()
            assert look()
            assert (len(clock.slept), storm.hits) == (9, 9)

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

"""What people read when Google Cloud Storage refuses: which setting or permission, and what to do next."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from singerlake import errors
from singerlake.clock import random_id
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.gcs.driver import GcsDriver, GcsSettings
from singerlake.storage.drivers.gcs.errors import GCS_ERRORS
from singerlake.storage.lost_replies import Meaning
from singerlake.storage.port import Part, Storage
from tests.servers.gcs.server import ALWAYS, GcsServer
from tests.storage.buckets import PatientlessClock, body, written
from tests.storage.drivers.gcs.conftest import MakeGcs, on

WHO = "writer@lake.iam.gserviceaccount.com does not have"
NO_BUCKET: dict[str, Callable[[Storage, Path], object]] = {
    "get": lambda storage, path: storage.get("a"),
    "head": lambda storage, path: storage.head("a"),
    "put": lambda storage, path: storage.put("a", b"1"),
    "create": lambda storage, path: storage.put("a", b"1", if_absent=True),
    "replace": lambda storage, path: storage.put("a", b"1", if_match="5"),
    "upload": lambda storage, path: storage.upload("a", path),
    "compose": lambda storage, path: storage.compose("a", [b"1", Part("b", 0, 5)]),
    "read_range": lambda storage, path: storage.read_range("a", 0, 1),
    "open": lambda storage, path: storage.open("a"),
    "list": lambda storage, path: list(storage.list("")),
    "list_folder": lambda storage, path: storage.list_folder("a/"),
    "delete": lambda storage, path: storage.delete("a"),
    "delete if": lambda storage, path: storage.delete("a", if_match="5"),
    "delete_all": lambda storage, path: storage.delete_all(["a", "b"]),
    "capabilities": lambda storage, path: storage.capabilities(),
}


@pytest.mark.parametrize(
    ("status", "reason", "message", "kind", "says"),
    [
        (
            403,
            "forbidden",
            f"{WHO} storage.objects.create access to the Google Cloud Storage object.",
            errors.AccessDeniedError,
            r"denied access; grant storage\.objects\.create on the bucket; roles/storage\.objectUser",
        ),
        (403, "forbidden", "Forbidden", errors.AccessDeniedError, r"roles/storage\.objectUser.*Forbidden"),
        (403, "", "", errors.AccessDeniedError, r"denied access.*HTTP 403"),
        (401, "authError", "Invalid Credentials", errors.AccessDeniedError, "not accept.*gcs_service_account_file"),
        (
            403,
            "retentionPolicyNotMet",
            "Object is subject to bucket's retention policy",
            errors.AccessDeniedError,
            "a retention policy keeps the object; wait",
        ),
        (
            403,
            "forbidden",
            "Object 'b/lake/a' is under active Event-Based hold and cannot be deleted",
            errors.AccessDeniedError,
            "a hold keeps the object; release the hold",
        ),
        (403, "objectUnderActiveHold", "held", errors.AccessDeniedError, "a hold keeps the object"),
        (
            400,
            "required",
            "Bucket is a requester pays bucket but no user project provided.",
            errors.SettingError,
            "set gcs_user_project",
        ),
        (400, "invalid", "User project specified in the request is invalid.", errors.SettingError, "gcs_user_project"),
        (
            403,
            "forbidden",
            f"{WHO} serviceusage.services.use access to the Google Cloud project.",
            errors.AccessDeniedError,
            "may not be billed; set gcs_user_project",
        ),
        (
            403,
            "accountDisabled",
            "The billing account for the owning project is disabled in state absent",
            errors.AccessDeniedError,
            "billing of the bucket's project is off",
        ),
        (400, "invalid", "Invalid bucket name: 'goog-x'", errors.SettingError, "not a bucket name; check lake_root"),
        (
            403,
            "forbidden",
            "Permission denied on Cloud KMS key. Please ensure that your service account has been authorized",
            errors.AccessDeniedError,
            r"grant roles/cloudkms\.cryptoKeyEncrypterDecrypter on gcs_kms_key_name",
        ),
        (400, "invalid", "Malformed Cloud KMS crypto key: x", errors.SettingError, "check gcs_kms_key_name"),
        (
            403,
            "vpcServiceControls",
            "Request is prohibited by organization's policy. vpcServiceControlsUniqueIdentifier: x",
            errors.AccessDeniedError,
            "VPC Service Controls",
        ),
        (
            412,
            "orgPolicyConstraintFailed",
            "violates constraint 'constraints/gcp.restrictNonCmekServices'",
            errors.AccessDeniedError,
            "policy of the organization.*gcs_kms_key_name",
        ),
        (403, "accessNotConfigured", "not enabled", errors.AccessDeniedError, "Cloud Storage API is off"),
        (413, "uploadTooLarge", "too large", errors.SettingError, "refused a request; look at code and reason"),
        (307, "", "", errors.SettingError, "refused a request.*HTTP 307"),
    ],
)
def test_each_refusal_names_the_next_step(
    gcs: GcsServer,
    storage: CloudStorage,
    clock: PatientlessClock,
    status: int,
    reason: str,
    message: str,
    kind: type[errors.SingerlakeError],
    says: str,
) -> None:
    gcs.fail("insert", status=status, reason=reason, message=message, times=ALWAYS)
    with pytest.raises(kind, match=says) as caught:
        storage.put("a", b"1", if_absent=True)
    assert type(caught.value) is kind
    assert "lake_root='gs://" in str(caught.value)
    assert clock.slept == []


@pytest.mark.parametrize("call", NO_BUCKET)
@pytest.mark.parametrize("words", ["Google's", "another server's"])
def test_a_bucket_that_is_not_there_is_told_by_all(
    gcs: GcsServer, clock: PatientlessClock, tmp_path: Path, call: str, words: str
) -> None:
    (tmp_path / "spool").write_bytes(b"1")
    if words != "Google's":
        gcs.fail(
            "insert,look,media,list,delete,compose", status=404, reason="notFound", message="Not Found", times=ALWAYS
        )
    with pytest.raises(errors.NoSuchBucketError, match="check lake_root"):
        NO_BUCKET[call](on(f"absent-{random_id()}", gcs.settings(), clock), tmp_path / "spool")


def test_an_object_that_is_not_there_is_none_in_any_words(gcs: GcsServer, storage: CloudStorage) -> None:
    gcs.fail("look,media", status=404, reason="notFound", message="Not Found", times=4)
    gcs.requests()
    assert storage.head("a") is None
    assert storage.get("a") is None
    assert storage.head("a") is None
    assert gcs.operations() == ["look", "list", "media", "look"], "that the bucket is there is asked once"


def test_without_the_permission_to_list_google_hides_what_is_not_there(gcs: GcsServer, storage: CloudStorage) -> None:
    message = f"{WHO} storage.objects.list access to the Google Cloud Storage bucket."
    gcs.fail("list,look", status=403, reason="forbidden", message=message, times=ALWAYS)
    for look in (lambda: list(storage.list("")), lambda: storage.head("absent")):
        with pytest.raises(errors.AccessDeniedError, match=r"grant storage\.objects\.list on the bucket"):
            look()


class TestWhatIsKept:
    @pytest.mark.parametrize(("keeps", "says"), [("retention", "retention policy"), ("hold", "hold")])
    def test_what_is_kept_may_be_made_and_read_and_is_neither_replaced_nor_removed(
        self, gcs: GcsServer, clock: PatientlessClock, keeps: str, says: str
    ) -> None:
        bucket = gcs.create_bucket(f"bucket-{random_id()}", keeps=keeps)
        storage = on(bucket, gcs.settings(), clock)
        etag = written(storage.put("a", b"1", if_absent=True))
        for change in (
            lambda: storage.put("a", b"2"),
            lambda: storage.put("a", b"2", if_match=etag),
            lambda: storage.delete("a"),
            lambda: storage.delete_all(["a"]),
            lambda: storage.capabilities(),
        ):
            with pytest.raises(errors.AccessDeniedError, match=f"a {says} keeps the object"):
                change()
        assert body(storage, "a") == b"1"

    @pytest.mark.parametrize("lost", ["insert", "block", "begin"])
    def test_an_upload_whose_reply_was_lost_is_not_an_attempt_to_replace(
        self, gcs: GcsServer, clock: PatientlessClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
    ) -> None:
        if lost != "insert":
            monkeypatch.setattr("singerlake.storage.drivers.gcs.driver.LONG", 1)
        bucket = gcs.create_bucket(f"bucket-{random_id()}", keeps="retention")
        storage = on(bucket, gcs.settings(), clock)
        (tmp_path / "file").write_bytes(b"data" * 1000)
        gcs.drop_reply(lost)
        assert storage.upload("a", tmp_path / "file") == 4000
        assert body(storage, "a") == b"data" * 1000


class TestSettings:
    @pytest.mark.parametrize(
        ("settings", "named"),
        [
            ({"service_account_file": "a", "service_account_json": '{"type": "x"}'}, "gcs_service_account_json"),
            ({"service_account_file": " a"}, "gcs_service_account_file"),
            ({"user_project": ""}, "gcs_user_project"),
            ({"kms_key_name": "a\n"}, "gcs_kms_key_name"),
            ({"endpoint_url": "localhost:9000"}, "gcs_endpoint_url"),
            ({"endpoint_url": "http://user:s3cr3t@localhost:9000"}, "gcs_endpoint_url"),
            ({"patience_seconds": -1}, "patience_seconds"),
        ],
    )
    def test_settings_that_cannot_work_are_refused_by_name(self, settings: dict[str, object], named: str) -> None:
        with pytest.raises(errors.SettingError, match=named) as caught:
            GcsSettings(**settings)  # type: ignore[arg-type]
        assert "s3cr3t" not in str(caught.value)

    @pytest.mark.parametrize("prefix", ["a//b", "../a", "a/.", "/a", "a/"])
    def test_a_prefix_that_is_no_plain_path_is_refused(self, prefix: str) -> None:
        with pytest.raises(errors.SettingError, match="lake_root"):
            GcsDriver("bucket", prefix, GcsSettings())

    @pytest.mark.parametrize("bucket", ["", "a", "..", "a/b", "Upper", "a b", "-a-", "a" * 223])
    def test_what_is_no_bucket_name_is_refused(self, bucket: str) -> None:
        with pytest.raises(errors.SettingError, match="not a bucket name; check lake_root"):
            GcsDriver(bucket, "", GcsSettings())

    def test_a_lake_may_be_the_whole_bucket(self, gcs: GcsServer, bucket: str, clock: PatientlessClock) -> None:
        storage = on(bucket, gcs.settings(), clock, prefix="")
        storage.put("raw/a", b"1")
        assert storage.url == f"gs://{bucket}"
        assert [entry.key for entry in storage.list("")] == ["raw/a"]
        assert storage.list_folder("").folders == ("raw/",)


class TestNames:
    @pytest.mark.parametrize("key", ["a\nb", "a\rb", "a\udc80"])
    def test_what_google_takes_for_no_name_is_refused_before_it_is_sent(
        self, gcs: GcsServer, storage: CloudStorage, key: str
    ) -> None:
        gcs.requests()
        for call in (
            lambda: storage.get(key),
            lambda: storage.put(key, b""),
            lambda: storage.delete_all([key]),
            lambda: list(storage.list(key)),
            lambda: storage.compose("a", [Part(key, 0, 1)]),
        ):
            with pytest.raises(errors.CorruptObjectError, match="no object of Google Cloud Storage"):
                call()
        assert gcs.requests() == []

    def test_a_name_has_1024_bytes(self, storage: CloudStorage) -> None:
        longest = "é" * 509 + "x"
        assert len(f"lake/{longest}".encode()) == 1024
        storage.put(longest, b"1")
        assert [entry.key for entry in storage.list("é")] == [longest]
        with pytest.raises(errors.NameTooLongError, match="shorten"):
            storage.put(longest + "x", b"1")

    @pytest.mark.parametrize("key", ["compose", "a/compose", "o/b", "a?alt=media", "upload_id=1", "a&b#c", "%2e%2e"])
    def test_names_that_look_like_paths_of_the_api_are_names(
        self, make: MakeGcs, storage: CloudStorage, key: str
    ) -> None:
        etag = written(storage.put(key, b"1", if_absent=True))
        storage.compose("made", [Part(key, 0, 1)])
        assert body(storage, key) == body(storage, "made") == b"1"
        assert storage.delete(key, if_match=etag) is True


def test_errors_that_are_not_google_s_pass(storage: CloudStorage) -> None:
    with pytest.raises(ZeroDivisionError):
        GCS_ERRORS.meaning(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        GcsDriver("bucket", "", GcsSettings()).translate(ZeroDivisionError())
    assert Meaning.FATAL in Meaning


def test_what_is_told_of_a_request_has_no_url(gcs: GcsServer, storage: CloudStorage) -> None:
    gcs.fail("look", status=400, reason="invalid", message="Invalid argument.")
    with pytest.raises(errors.SettingError) as caught:
        storage.head("a")
    assert "http" not in str(caught.value)
    assert "Invalid argument." in "".join(traceback.format_exception(caught.value))

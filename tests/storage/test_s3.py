"""What S3 adds to the storage contract: lost replies, conflicts, stores that break the rules, credentials, KMS."""

from __future__ import annotations

import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import botocore.credentials
import pytest

from singerlake import errors
from singerlake.clock import random_id
from singerlake.storage import s3 as s3_module
from singerlake.storage.port import Capabilities, Refused, Storage, Written
from singerlake.storage.s3 import S3Settings, S3Storage
from tests.servers.s3 import ALWAYS, SECRET_ACCESS_KEY, S3Server


class PatientlessClock:
    """Sleeps without waiting and remembers for how long it was asked to."""

    def __init__(self) -> None:
        self.slept: list[float] = []

    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=timezone.utc)

    def monotonic(self) -> float:
        return sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def jitter(self) -> float:
        return 0.5


Make = Callable[..., S3Storage]


@pytest.fixture
def clock() -> PatientlessClock:
    return PatientlessClock()


@pytest.fixture
def make(s3: S3Server, clock: PatientlessClock) -> Make:
    """Storages on a bucket of the test's own, so that nothing learned of another bucket matters."""
    bucket = s3.create_bucket(f"bucket-{random_id()}")

    def build(**settings: object) -> S3Storage:
        return S3Storage(bucket, "lake", s3.settings(**settings), clock=clock, ids=random_id)

    return build


@pytest.fixture
def storage(make: Make) -> S3Storage:
    return make()


def written(outcome: Written | Refused) -> str:
    assert isinstance(outcome, Written)
    return outcome.etag


def body(storage: Storage, key: str) -> bytes | None:
    stored = storage.get(key)
    return stored.body if stored else None


class TestLostReplies:
    def test_a_create_whose_reply_was_lost_is_written_and_not_refused_by_itself(
        self, s3: S3Server, storage: S3Storage
    ) -> None:
        s3.requests()
        s3.drop_reply("PUT")
        etag = written(storage.put("a", b"nonce 1", if_absent=True))
        assert [request.method for request in s3.requests()] == ["PUT", "GET"]
        stored = storage.get("a")
        assert stored is not None
        assert (stored.body, stored.etag) == (b"nonce 1", etag)

    def test_a_replacement_whose_reply_was_lost_is_written(self, s3: S3Server, storage: S3Storage) -> None:
        etag = written(storage.put("a", b"nonce 1"))
        s3.drop_reply("PUT")
        assert isinstance(storage.put("a", b"nonce 2", if_match=etag), Written)
        assert body(storage, "a") == b"nonce 2"

    @pytest.mark.parametrize(("status", "code"), [(500, "InternalError"), (500, "UnknownError"), (503, ""), (500, "")])
    def test_an_error_after_the_effect_is_looked_up(
        self, s3: S3Server, storage: S3Storage, status: int, code: str
    ) -> None:
        s3.fail("PUT", status=status, code=code, after=True)
        assert isinstance(storage.put("a", b"nonce 1", if_absent=True), Written)

    @pytest.mark.parametrize("lost", ["before", "after"])
    def test_an_unclear_create_of_what_another_made_is_refused(
        self, s3: S3Server, storage: S3Storage, lost: str
    ) -> None:
        storage.put("a", b"theirs")
        if lost == "before":
            s3.drop_request("PUT")
        else:
            s3.drop_reply("PUT")
        assert isinstance(storage.put("a", b"mine", if_absent=True), Refused)
        assert body(storage, "a") == b"theirs"

    def test_a_request_that_never_arrived_is_sent_again(self, s3: S3Server, storage: S3Storage) -> None:
        s3.drop_request("PUT", times=3)
        assert isinstance(storage.put("a", b"nonce 1", if_absent=True), Written)
        assert body(storage, "a") == b"nonce 1"

    def test_what_cannot_be_told_is_an_unknown_outcome(self, s3: S3Server, storage: S3Storage) -> None:
        s3.drop_reply("PUT", times=ALWAYS)
        s3.fail("GET,HEAD", status=403, code="AccessDenied", times=ALWAYS)
        with pytest.raises(errors.UnknownOutcome, match="delete nothing"):
            storage.put("a", b"nonce 1", if_absent=True)
        s3.calm()
        assert body(storage, "a") == b"nonce 1"

    def test_access_lost_after_an_unclear_try_is_still_an_unknown_outcome(
        self, s3: S3Server, storage: S3Storage
    ) -> None:
        s3.drop_request("PUT")
        s3.fail("PUT", status=403, code="ExpiredToken", times=ALWAYS)
        with pytest.raises(errors.UnknownOutcome, match="ExpiredToken"):
            storage.put("a", b"nonce 1", if_absent=True)

    def test_a_delete_whose_reply_was_lost_is_done(self, s3: S3Server, storage: S3Storage) -> None:
        etag = written(storage.put("a", b"1"))
        s3.drop_reply("DELETE")
        assert storage.delete("a", if_match=etag) is True
        assert storage.get("a") is None

    def test_an_upload_whose_reply_was_lost_is_done(self, s3: S3Server, storage: S3Storage, tmp_path: Path) -> None:
        (tmp_path / "spool").write_bytes(b"data")
        s3.drop_reply("PUT")
        assert storage.upload("data", tmp_path / "spool").size == 4

    def test_a_body_that_breaks_off_is_read_again(self, s3: S3Server, storage: S3Storage) -> None:
        data = bytes(range(256)) * 2000
        storage.put("a", data)
        s3.truncate()
        assert body(storage, "a") == data
        s3.truncate()
        assert storage.read_range("a", 1000, 400_000) == data[1000:401_000]
        s3.truncate()
        with storage.open("a", 100) as stream:
            assert stream.read() == data[100:]


class TestConflictsAndLoad:
    def test_conflicts_are_tried_again_with_growing_pauses(
        self, s3: S3Server, storage: S3Storage, clock: PatientlessClock
    ) -> None:
        s3.fail("PUT", status=409, code="ConditionalRequestConflict", times=5)
        assert isinstance(storage.put("a", b"1", if_absent=True), Written)
        assert len(clock.slept) == 5
        assert clock.slept == sorted(clock.slept)

    def test_conflicts_without_end_over_a_foreign_object_are_a_refusal(self, s3: S3Server, storage: S3Storage) -> None:
        storage.put("a", b"theirs")
        s3.fail("PUT", status=409, code="", times=ALWAYS)
        assert isinstance(storage.put("a", b"mine", if_absent=True), Refused)

    def test_conflicts_without_end_over_nothing_change_nothing(self, s3: S3Server, storage: S3Storage) -> None:
        s3.fail("PUT", status=409, code="ConditionalRequestConflict", times=ALWAYS)
        with pytest.raises(errors.StorageUnavailable):
            storage.put("a", b"mine", if_absent=True)
        s3.calm()
        assert storage.get("a") is None

    @pytest.mark.parametrize(("status", "code"), [(503, "SlowDown"), (429, "TooManyRequests"), (429, "")])
    def test_a_store_that_asks_to_slow_down_is_asked_again_and_then_given_up(
        self, s3: S3Server, storage: S3Storage, clock: PatientlessClock, status: int, code: str
    ) -> None:
        s3.fail("PUT", status=status, code=code, times=3)
        assert isinstance(storage.put("a", b"1"), Written)
        assert len(clock.slept) == 3
        s3.fail("PUT", status=status, code=code, times=ALWAYS)
        with pytest.raises(errors.StorageUnavailable):
            storage.put("a", b"2")
        assert body(storage, "a") == b"1"

    def test_a_conditional_request_is_never_repeated_behind_our_back(self, s3: S3Server, storage: S3Storage) -> None:
        storage.put("a", b"1")
        s3.requests()
        assert isinstance(storage.put("a", b"2", if_absent=True), Refused)
        assert [request.method for request in s3.requests()] == ["PUT"]


class TestStoresThatBreakTheRules:
    def test_an_honest_store_is_seen_as_such_once_and_left_clean(self, s3: S3Server, make: Make) -> None:
        storage = make()
        assert storage.capabilities() == Capabilities(conditional_put=True, conditional_delete=True)
        assert list(storage.list("")) == []
        s3.requests()
        assert make().capabilities() == Capabilities(conditional_put=True, conditional_delete=True)
        assert s3.requests() == []

    def test_a_store_that_ignores_conditions_is_found_out(self, s3: S3Server, storage: S3Storage) -> None:
        s3.ignore_conditions()
        assert storage.capabilities() == Capabilities(conditional_put=False, conditional_delete=False)

    def test_a_store_that_ignores_the_condition_of_a_delete_is_found_out(
        self, s3: S3Server, storage: S3Storage
    ) -> None:
        s3.ignore_conditions("DELETE")
        assert storage.capabilities() == Capabilities(conditional_put=True, conditional_delete=False)

    def test_a_store_that_does_not_know_conditions_is_found_out_and_says_so(
        self, s3: S3Server, storage: S3Storage
    ) -> None:
        s3.fail("PUT,DELETE", status=501, code="NotImplemented", times=ALWAYS, conditional_only=True)
        assert storage.capabilities() == Capabilities(conditional_put=False, conditional_delete=False)
        with pytest.raises(errors.SettingError, match="does not know"):
            storage.put("a", b"1", if_absent=True)

    def test_a_store_that_wants_bare_etags_gets_them(self, s3: S3Server, storage: S3Storage) -> None:
        s3.refuse_quoted_etags()
        etag = written(storage.put("a", b"1"))
        newer = written(storage.put("a", b"2", if_match=etag))
        assert isinstance(storage.put("a", b"3", if_match=etag), Refused)
        s3.requests()
        assert isinstance(storage.put("a", b"4", if_match=newer), Written)
        assert [request.method for request in s3.requests()] == ["PUT"]
        assert storage.capabilities().conditional_put

    def test_a_probe_needs_no_right_to_delete(self, s3: S3Server, storage: S3Storage) -> None:
        s3.fail("DELETE", status=403, code="AccessDenied", times=ALWAYS)
        assert storage.capabilities() == Capabilities(conditional_put=True, conditional_delete=False)
        assert [entry.size > 0 for entry in storage.list("_singerlake_probe/")] == [True]


class TestSettings:
    def test_importing_the_adapter_imports_no_driver(self) -> None:
        names = "('boto3', 'botocore', 'smart_open')"
        script = (
            f"import sys, singerlake.storage.s3 as m; m.S3Settings(); print([n for n in {names} if n in sys.modules])"
        )
        shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert shown.stdout.strip() == "[]"

    def test_settings_travel_to_other_processes_and_show_no_secret(self) -> None:
        settings = S3Settings(access_key_id="AKIA", secret_access_key="s3cr3t", session_token="t0ken", region="x")
        assert pickle.loads(pickle.dumps(settings)) == settings
        assert "s3cr3t" not in repr(settings)
        assert "t0ken" not in repr(settings)

    @pytest.mark.parametrize(
        ("settings", "named"),
        [
            ({"access_key_id": "a"}, "aws_secret_access_key"),
            ({"secret_access_key": "s3cr3t"}, "aws_access_key_id"),
            ({"session_token": "s3cr3t"}, "aws_session_token"),
            ({"access_key_id": "a", "secret_access_key": "s3cr3t\n"}, "aws_secret_access_key"),
            ({"access_key_id": "a", "secret_access_key": ""}, "aws_secret_access_key"),
            ({"access_key_id": "a", "secret_access_key": "s3cr3t", "profile": "p"}, "aws_profile"),
            ({"role_external_id": "s3cr3t"}, "aws_role_arn"),
            ({"endpoint_url": "localhost:9000"}, "s3_endpoint_url"),
            ({"endpoint_url": "http://user:s3cr3t@localhost:9000"}, "s3_endpoint_url"),
        ],
    )
    def test_settings_that_cannot_work_are_refused_by_name_without_their_value(
        self, settings: dict[str, str], named: str
    ) -> None:
        with pytest.raises(errors.SettingError, match=named) as caught:
            S3Settings(**settings)
        assert "s3cr3t" not in str(caught.value)

    @pytest.mark.parametrize("prefix", ["a//b", "../a", "a/.", "/a", "a/"])
    def test_a_prefix_that_is_no_plain_path_is_refused(self, prefix: str, clock: PatientlessClock) -> None:
        with pytest.raises(errors.SettingError, match="lake_root"):
            S3Storage("bucket", prefix, S3Settings(), clock=clock, ids=random_id)

    def test_a_lake_may_be_the_whole_bucket(self, s3: S3Server, clock: PatientlessClock) -> None:
        bucket = s3.create_bucket(f"bucket-{random_id()}")
        storage = S3Storage(bucket, "", s3.settings(), clock=clock, ids=random_id)
        storage.put("raw/a", b"1")
        assert storage.url == f"s3://{bucket}"
        assert [entry.key for entry in storage.list("")] == ["raw/a"]
        assert storage.list_folder("").folders == ("raw/",)

    def test_every_write_names_the_encryption_key(
        self, s3: S3Server, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        storage = make(kms_key_id="alias/lake")
        (tmp_path / "small").write_bytes(b"1")
        (tmp_path / "big").write_bytes(b"1" * (6 << 20))
        monkeypatch.setattr(s3_module, "MULTIPART_THRESHOLD", 5 << 20)
        monkeypatch.setattr(s3_module, "PART_SIZE", 5 << 20)
        s3.requests()
        etag = written(storage.put("a", b"1", if_absent=True))
        storage.put("a", b"2", if_match=etag)
        storage.upload("small", tmp_path / "small")
        storage.upload("big", tmp_path / "big")
        writes = [
            request
            for request in s3.requests()
            if request.method in ("PUT", "POST")
            and "partNumber" not in request.query
            and "uploadId" not in request.query
        ]
        assert len(writes) == 4
        for request in writes:
            assert request.headers["x-amz-server-side-encryption"] == "aws:kms"
            assert request.headers["x-amz-server-side-encryption-aws-kms-key-id"] == "alias/lake"

    def test_no_object_has_a_content_encoding_and_no_request_a_checksum_trailer(
        self, s3: S3Server, storage: S3Storage, tmp_path: Path
    ) -> None:
        (tmp_path / "x.gz").write_bytes(b"1")
        s3.requests()
        storage.put("a", b"1")
        storage.upload("x.gz", tmp_path / "x.gz")
        for request in s3.requests():
            assert "content-encoding" not in request.headers
            assert "x-amz-trailer" not in request.headers
            assert not [name for name in request.headers if name.startswith("x-amz-checksum")]

    def test_a_role_is_assumed_with_its_external_id_and_again_before_it_expires(
        self, s3: S3Server, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def in_an_hour() -> datetime:
            return datetime.now(timezone.utc) + timedelta(minutes=50)

        storage = make(role_arn="arn:aws:iam::123456789012:role/lake", role_external_id="ext")
        storage.put("a", b"1")
        assumed = [request.query for request in s3.requests() if "AssumeRole" in request.query]
        assert len(assumed) == 1
        assert "ExternalId=ext" in assumed[0]
        storage.put("a", b"2")
        assert not [request for request in s3.requests() if "AssumeRole" in request.query]
        monkeypatch.setattr(botocore.credentials, "_local_now", in_an_hour)
        storage._clients.single._request_signer._credentials._time_fetcher = in_an_hour
        storage.put("a", b"3")
        assert [request for request in s3.requests() if "AssumeRole" in request.query]


class TestUploads:
    def test_a_large_file_goes_up_in_parts_and_a_small_one_in_one_request(
        self, s3: S3Server, storage: S3Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(s3_module, "MULTIPART_THRESHOLD", 6 << 20)
        monkeypatch.setattr(s3_module, "PART_SIZE", 5 << 20)
        data = bytes(range(256)) * (12 << 12)
        (tmp_path / "big").write_bytes(data)
        (tmp_path / "small").write_bytes(data[:1000])
        s3.requests()
        assert storage.upload("big", tmp_path / "big").size == len(data)
        assert sum("partNumber" in request.query for request in s3.requests()) == 3
        assert body(storage, "big") == data
        s3.requests()
        storage.upload("small", tmp_path / "small")
        assert [request.method for request in s3.requests()] == ["PUT", "HEAD"]

    def test_metadata_is_one_put_however_large(
        self, s3: S3Server, storage: S3Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(s3_module, "MULTIPART_THRESHOLD", 1)
        s3.requests()
        storage.put("manifest.json", b"1" * (6 << 20))
        assert [(request.method, request.query) for request in s3.requests()] == [("PUT", "")]

    def test_a_failed_upload_in_parts_leaves_no_object(
        self, s3: S3Server, storage: S3Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(s3_module, "MULTIPART_THRESHOLD", 5 << 20)
        monkeypatch.setattr(s3_module, "PART_SIZE", 5 << 20)
        (tmp_path / "big").write_bytes(b"1" * (6 << 20))
        s3.fail("PUT", status=403, code="AccessDenied", times=ALWAYS)
        with pytest.raises(errors.AccessDenied, match="s3:PutObject"):
            storage.upload("big", tmp_path / "big")
        s3.calm()
        assert storage.head("big") is None

    def test_a_size_that_storage_reports_otherwise_is_an_error(
        self, s3: S3Server, storage: S3Storage, tmp_path: Path
    ) -> None:
        (tmp_path / "spool").write_bytes(b"1")
        storage.put("data", b"longer")
        s3.fail("PUT", status=500, code="InternalError", times=ALWAYS)
        with pytest.raises(errors.StorageUnavailable):
            storage.upload("data", tmp_path / "spool")


CALLS: dict[str, Callable[[Storage], object]] = {
    "get": lambda storage: storage.get("a"),
    "head": lambda storage: storage.head("a"),
    "put": lambda storage: storage.put("a", b"1"),
    "create": lambda storage: storage.put("a", b"1", if_absent=True),
    "replace": lambda storage: storage.put("a", b"1", if_match="x"),
    "upload": lambda storage: storage.upload("a", Path(__file__)),
    "read_range": lambda storage: storage.read_range("a", 0, 1),
    "open": lambda storage: storage.open("a"),
    "list": lambda storage: list(storage.list("")),
    "list_folder": lambda storage: storage.list_folder(""),
    "delete": lambda storage: storage.delete("a"),
}


class TestErrors:
    @pytest.mark.parametrize("call", sorted(CALLS))
    def test_a_bucket_that_does_not_exist_is_named(self, s3: S3Server, clock: PatientlessClock, call: str) -> None:
        storage = S3Storage(f"none-{random_id()}", "lake", s3.settings(), clock=clock, ids=random_id)
        with pytest.raises(errors.NoSuchBucket, match="s3://none-"):
            CALLS[call](storage)

    @pytest.mark.parametrize("call", sorted(set(CALLS) - {"head"}))
    def test_a_wrong_access_key_names_its_setting_and_shows_no_secret(self, make: Make, call: str) -> None:
        with pytest.raises(errors.AccessDenied, match="aws_access_key_id") as caught:
            CALLS[call](make(access_key_id="AKIAWRONG"))
        assert SECRET_ACCESS_KEY not in "".join(traceback.format_exception(caught.value))

    @pytest.mark.parametrize(
        ("code", "status", "expected", "hint"),
        [
            ("AccessDenied", 403, errors.AccessDenied, "s3:GetObject"),
            ("SignatureDoesNotMatch", 403, errors.AccessDenied, "aws_secret_access_key"),
            ("ExpiredToken", 400, errors.AccessDenied, "aws_session_token"),
            ("InvalidToken", 400, errors.AccessDenied, "aws_session_token"),
            ("RequestTimeTooSkewed", 403, errors.AccessDenied, "clock"),
            ("KMS.DisabledException", 400, errors.AccessDenied, "s3_kms_key_id"),
            ("AuthorizationHeaderMalformed", 400, errors.SettingError, "aws_region"),
            ("KeyTooLongError", 400, errors.NameTooLong, "shorten"),
            ("QuotaExceeded", 403, errors.StorageFull, "quota"),
            ("SomethingNew", 400, errors.SettingError, "SomethingNew"),
        ],
    )
    def test_what_storage_says_is_translated_with_a_next_step(
        self,
        s3: S3Server,
        storage: S3Storage,
        code: str,
        status: int,
        expected: type[errors.SingerlakeError],
        hint: str,
    ) -> None:
        s3.fail("GET,PUT,DELETE", status=status, code=code, times=ALWAYS)
        for call in ("get", "put", "create", "upload", "list", "open", "delete"):
            with pytest.raises(expected, match=hint):
                CALLS[call](storage)

    def test_a_secret_that_storage_repeats_is_taken_out(self) -> None:
        from botocore.exceptions import ClientError

        from singerlake.storage.s3_errors import translate

        settings = S3Settings(access_key_id="a", secret_access_key="s3cr3t", session_token="t0ken")
        error = ClientError({"Error": {"Code": "InvalidToken", "Message": "bad t0ken with s3cr3t"}}, "PutObject")
        shown = str(translate(error, settings, key="k"))
        assert "s3cr3t" not in shown
        assert "t0ken" not in shown
        assert "***" in shown

    @pytest.mark.parametrize("call", ["put", "create"])
    def test_an_endpoint_where_nobody_answers_is_named(self, clock: PatientlessClock, call: str) -> None:
        settings = S3Settings(access_key_id="a", secret_access_key="b", endpoint_url="http://127.0.0.1:1")
        with pytest.raises(errors.StorageUnavailable, match="s3_endpoint_url"):
            CALLS[call](S3Storage("bucket", "", settings, clock=clock, ids=random_id))

    def test_a_profile_that_does_not_exist_is_named(
        self, s3: S3Server, clock: PatientlessClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        settings = S3Settings(profile="nobody", endpoint_url=s3.endpoint_url)
        with pytest.raises(errors.AccessDenied, match="aws_profile"):
            S3Storage("bucket", "", settings, clock=clock, ids=random_id).get("a")

    def test_missing_credentials_name_the_settings(
        self, s3: S3Server, clock: PatientlessClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        storage = S3Storage("bucket", "", S3Settings(endpoint_url=s3.endpoint_url), clock=clock, ids=random_id)
        with pytest.raises(errors.AccessDenied, match="aws_profile"):
            storage.put("a", b"1")

    def test_a_file_that_vanishes_before_it_is_read_is_missing(self, storage: S3Storage) -> None:
        storage.put("a", b"1")
        storage.delete("a")
        with pytest.raises(errors.MissingFile, match="key='a'"):
            storage.open("a")


def test_a_session_token_is_in_no_log_even_at_debug(s3: S3Server) -> None:
    code = (
        "import logging, sys; logging.basicConfig(level=logging.DEBUG)\n"
        "from singerlake.clock import SystemClock, random_id\n"
        "from singerlake.storage.s3 import S3Settings, S3Storage\n"
        "settings = S3Settings(access_key_id='AKIAX', secret_access_key='s3cr3t', session_token='t0ken', "
        "region='x', endpoint_url=sys.argv[1])\n"
        "S3Storage('lake', '', settings, clock=SystemClock(), ids=random_id).get('key')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, s3.endpoint_url], capture_output=True, text=True, timeout=60)
    assert "storage does not know the access key" in done.stderr
    assert "DEBUG:" in done.stderr
    assert "t0ken" not in done.stderr
    assert "s3cr3t" not in done.stderr

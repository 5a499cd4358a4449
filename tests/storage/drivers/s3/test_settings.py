"""What S3 asks of its settings, and what its errors say: credentials, KMS, requests."""

from __future__ import annotations

import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import botocore.credentials
import pytest

from singerlake import errors
from singerlake.adapters import s3_storage
from singerlake.aws.settings import S3Settings
from singerlake.clock import random_id
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.s3 import upload as s3_upload
from singerlake.storage.port import Storage
from tests.servers.s3 import ALWAYS, SECRET_ACCESS_KEY, S3Server
from tests.storage.buckets import Make, PatientlessClock, written


class TestSettings:
    def test_importing_the_adapter_imports_no_driver(self) -> None:
        names = "('boto3', 'botocore', 'smart_open')"
        script = (
            "import sys, singerlake.adapters, singerlake.storage.drivers.s3.driver as m; m.S3Settings();"
            f"print([n for n in {names} if n in sys.modules])"
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
            s3_storage("bucket", prefix, S3Settings(), clock=clock, ids=random_id)

    def test_a_lake_may_be_the_whole_bucket(self, s3: S3Server, clock: PatientlessClock) -> None:
        bucket = s3.create_bucket(f"bucket-{random_id()}")
        storage = s3_storage(bucket, "", s3.settings(), clock=clock, ids=random_id)
        storage.put("raw/a", b"1")
        assert storage.url == f"s3://{bucket}"
        assert [entry.key for entry in storage.list("")] == ["raw/a"]
        assert storage.list_folder("").folders == ("raw/",)

    @pytest.mark.parametrize("named_by", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "profile"])
    def test_a_server_that_the_environment_names_is_spoken_to_as_one_that_a_setting_names(
        self, s3: S3Server, clock: PatientlessClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named_by: str
    ) -> None:
        config = tmp_path / "config"
        config.write_text(f"[default]\nendpoint_url = {s3.endpoint_url}\n" if named_by == "profile" else "")
        for name, value in s3.environment().items():
            if name not in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_DEFAULT_REGION"):
                monkeypatch.setenv(name, value)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        if named_by != "profile":
            monkeypatch.setenv(named_by, s3.endpoint_url)
        bucket = s3.create_bucket(f"bucket-{random_id()}")
        storage = s3_storage(bucket, "", S3Settings(), clock=clock, ids=random_id)
        storage.put("raw/a", b"123")
        assert storage.read_range("raw/a", 1, 1) == b"2"
        client = storage._driver._client
        assert client.meta.endpoint_url == s3.endpoint_url
        assert client.meta.config.s3["addressing_style"] == "path"
        assert client.meta.config.request_checksum_calculation == "when_required"
        assert client.meta.config.response_checksum_validation == "when_required"

    def test_amazon_is_left_to_botocore(self, clock: PatientlessClock) -> None:
        settings = S3Settings(access_key_id="AKIA", secret_access_key="s3cr3t", region="eu-central-1")
        client = s3_storage("bucket", "", settings, clock=clock, ids=random_id)._driver._client
        assert client.meta.endpoint_url == "https://s3.eu-central-1.amazonaws.com"
        assert client.meta.config.s3["addressing_style"] == "auto"
        assert client.meta.config.response_checksum_validation == "when_supported"

    def test_every_write_names_the_encryption_key(
        self, s3: S3Server, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        storage = make(kms_key_id="alias/lake")
        (tmp_path / "small").write_bytes(b"1")
        (tmp_path / "big").write_bytes(b"1" * (6 << 20))
        monkeypatch.setattr(s3_upload, "MULTIPART_THRESHOLD", 5 << 20)
        monkeypatch.setattr(s3_upload, "PART_SIZE", 5 << 20)
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
        self, s3: S3Server, storage: CloudStorage, tmp_path: Path
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
            return datetime.now(UTC) + timedelta(minutes=50)

        storage = make(role_arn="arn:aws:iam::123456789012:role/lake", role_external_id="ext")
        storage.put("a", b"1")
        assumed = [request.query for request in s3.requests() if "AssumeRole" in request.query]
        assert len(assumed) == 1
        assert "ExternalId=ext" in assumed[0]
        storage.put("a", b"2")
        assert not [request for request in s3.requests() if "AssumeRole" in request.query]
        monkeypatch.setattr(botocore.credentials, "_local_now", in_an_hour)
        storage._driver._client._request_signer._credentials._time_fetcher = in_an_hour
        storage.put("a", b"3")
        assert [request for request in s3.requests() if "AssumeRole" in request.query]


CALLS: dict[str, Callable[[Storage], object]] = {
    "get": lambda storage: storage.get("a"),
    "head": lambda storage: storage.head("a"),
    "put": lambda storage: storage.put("a", b"1"),
    "create": lambda storage: storage.put("a", b"1", if_absent=True),
    "replace": lambda storage: storage.put("a", b"1", if_match="x"),
    "upload": lambda storage: storage.upload("a", Path(__file__)),
    "read_range": lambda storage: storage.read_range("a", 0, 1),
    "beginning": lambda storage: storage.beginning("a", 1),
    "open": lambda storage: storage.open("a"),
    "list": lambda storage: list(storage.list("")),
    "list_folder": lambda storage: storage.list_folder(""),
    "delete": lambda storage: storage.delete("a"),
}


class TestErrors:
    @pytest.mark.parametrize("call", sorted(CALLS))
    def test_a_bucket_that_does_not_exist_is_named(self, s3: S3Server, clock: PatientlessClock, call: str) -> None:
        storage = s3_storage(f"none-{random_id()}", "lake", s3.settings(), clock=clock, ids=random_id)
        with pytest.raises(errors.NoSuchBucketError, match="s3://none-"):
            CALLS[call](storage)

    @pytest.mark.parametrize(
        ("call", "code"),
        [
            ("list", "NoSuchKey"),
            *((call, code) for call in ("list", "list_folder", "put", "upload") for code in ("", "404")),
        ],
    )
    def test_a_404_of_a_listing_or_a_put_is_not_about_an_object(
        self, s3: S3Server, storage: CloudStorage, call: str, code: str
    ) -> None:
        """A server that is not S3, or knows no such bucket, may have no code of S3 for it."""
        s3.fail("GET,PUT", status=404, code=code, times=ALWAYS)
        with pytest.raises(errors.NoSuchBucketError, match="or the server is not S3; check lake_root, s3_endpoint_url"):
            CALLS[call](storage)

    @pytest.mark.parametrize("call", sorted(set(CALLS) - {"head"}))
    def test_a_wrong_access_key_names_its_setting_and_shows_no_secret(self, make: Make, call: str) -> None:
        with pytest.raises(errors.AccessDeniedError, match="aws_access_key_id") as caught:
            CALLS[call](make(access_key_id="AKIAWRONG"))
        assert SECRET_ACCESS_KEY not in "".join(traceback.format_exception(caught.value))

    @pytest.mark.parametrize(
        ("code", "status", "expected", "hint"),
        [
            ("AccessDenied", 403, errors.AccessDeniedError, "s3:GetObject"),
            ("SignatureDoesNotMatch", 403, errors.AccessDeniedError, "aws_secret_access_key"),
            ("ExpiredToken", 400, errors.AccessDeniedError, "aws_session_token"),
            ("InvalidToken", 400, errors.AccessDeniedError, "aws_session_token"),
            ("RequestTimeTooSkewed", 403, errors.AccessDeniedError, "clock"),
            ("KMS.DisabledException", 400, errors.AccessDeniedError, "s3_kms_key_id"),
            ("AuthorizationHeaderMalformed", 400, errors.SettingError, "aws_region"),
            ("KeyTooLongError", 400, errors.NameTooLongError, "shorten"),
            ("QuotaExceeded", 403, errors.StorageFullError, "quota"),
            ("SomethingNew", 400, errors.SettingError, "SomethingNew"),
        ],
    )
    def test_what_storage_says_is_translated_with_a_next_step(
        self,
        s3: S3Server,
        storage: CloudStorage,
        code: str,
        status: int,
        expected: type[errors.SingerlakeError],
        hint: str,
    ) -> None:
        s3.fail("GET,PUT,DELETE", status=status, code=code, times=ALWAYS)
        for call in ("get", "put", "create", "upload", "list", "open", "delete"):
            with pytest.raises(expected, match=hint):
                CALLS[call](storage)

    def test_a_body_that_does_not_fit_its_checksum_is_no_wrong_setting(self) -> None:
        from botocore.exceptions import FlexibleChecksumError

        from singerlake.storage.drivers.s3.errors import translate

        shown = translate(FlexibleChecksumError(error_msg="Expected A, got B"), S3Settings(), key="k")
        assert isinstance(shown, errors.StorageUnavailableError)
        assert "does not fit the checksum" in str(shown)
        assert "s3_endpoint_url" in shown.hint

    def test_a_secret_that_storage_repeats_is_taken_out(self) -> None:
        from botocore.exceptions import ClientError

        from singerlake.storage.drivers.s3.errors import translate

        settings = S3Settings(access_key_id="a", secret_access_key="s3cr3t", session_token="t0ken")
        error = ClientError({"Error": {"Code": "InvalidToken", "Message": "bad t0ken with s3cr3t"}}, "PutObject")
        shown = str(translate(error, settings, key="k"))
        assert "s3cr3t" not in shown
        assert "t0ken" not in shown
        assert "***" in shown

    @pytest.mark.parametrize("call", ["put", "create"])
    def test_an_endpoint_where_nobody_answers_is_named(self, clock: PatientlessClock, call: str) -> None:
        settings = S3Settings(access_key_id="a", secret_access_key="b", endpoint_url="http://127.0.0.1:1")
        with pytest.raises(errors.StorageUnavailableError, match="s3_endpoint_url"):
            CALLS[call](s3_storage("bucket", "", settings, clock=clock, ids=random_id))

    def test_a_profile_that_does_not_exist_is_named(
        self, s3: S3Server, clock: PatientlessClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        settings = S3Settings(profile="nobody", endpoint_url=s3.endpoint_url)
        with pytest.raises(errors.AccessDeniedError, match="aws_profile"):
            s3_storage("bucket", "", settings, clock=clock, ids=random_id).get("a")

    def test_missing_credentials_name_the_settings(
        self, s3: S3Server, clock: PatientlessClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        storage = s3_storage("bucket", "", S3Settings(endpoint_url=s3.endpoint_url), clock=clock, ids=random_id)
        with pytest.raises(errors.AccessDeniedError, match="aws_profile"):
            storage.put("a", b"1")

    @pytest.mark.parametrize(
        ("profile", "said"),
        [
            ("credential_process = sh -c 'echo s3cr3t >&2; exit 1'", r"credential_process .* failed; run its command"),
            ("credential_process = /nowhere/command", r"credential_process .* failed.*no such file"),
            ("credential_process = echo s3cr3t", r"credential_process .* failed"),
            ("credential_process = echo '[]'", r"credential_process .* failed"),
            ("credential_process = echo 'no end", r"credential_process .* failed"),
            (
                """credential_process = echo '{"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "s3cr3t", """
                """"Expiration": "2000-01-01T00:00:00Z"}'""",
                r"credential_process .* failed.*have not expired",
            ),
            (
                "role_arn = arn:aws:iam::1:role/x\nweb_identity_token_file = /nowhere",
                r"could not be loaded.*provider='assume-role-with-web-identity', reason='no such file",
            ),
            ("role_arn = arn:aws:iam::1:role/x\nsource_profile = none", "profile cannot be used; check aws_profile"),
            ("aws_access_key_id = a", "no complete credentials"),
        ],
    )
    def test_a_profile_that_gives_no_credentials_is_named_and_not_the_endpoint(
        self,
        s3: S3Server,
        clock: PatientlessClock,
        monkeypatch: pytest.MonkeyPatch,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        profile: str,
        said: str,
    ) -> None:
        (tmp_path / "config").write_text(f"[profile mine]\n{profile}\n")
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
        monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
        settings = S3Settings(profile="mine", region="us-east-1", endpoint_url=s3.endpoint_url)
        with pytest.raises(errors.AccessDeniedError, match=said) as caught:
            s3_storage("bucket", "", settings, clock=clock, ids=random_id).get("a")
        assert "s3cr3t" not in str(caught.value) + caplog.text

    def test_a_file_that_vanishes_before_it_is_read_is_missing(self, storage: CloudStorage) -> None:
        storage.put("a", b"1")
        storage.delete("a")
        with pytest.raises(errors.MissingFileError, match="key='a'"):
            storage.open("a")


def test_a_session_token_is_in_no_log_even_at_debug(s3: S3Server) -> None:
    code = (
        "import logging, sys; logging.basicConfig(level=logging.DEBUG)\n"
        "from singerlake.clock import SystemClock, random_id\n"
        "from singerlake.adapters import s3_storage\n"
        "from singerlake.aws.settings import S3Settings\n"
        "settings = S3Settings(access_key_id='AKIAX', secret_access_key='s3cr3t', session_token='t0ken', "
        "region='x', endpoint_url=sys.argv[1])\n"
        "s3_storage('lake', '', settings, clock=SystemClock(), ids=random_id).get('key')\n"
    )
    done = subprocess.run([sys.executable, "-c", code, s3.endpoint_url], capture_output=True, text=True, timeout=60)
    assert "storage does not know the access key" in done.stderr
    assert "DEBUG:" in done.stderr
    assert "t0ken" not in done.stderr
    assert "s3cr3t" not in done.stderr

"""Who speaks to Google Cloud Storage: key files, workload identity, nobody; tokens that expire; no secret is told."""

from __future__ import annotations

import json
import logging
import pickle
import traceback
from pathlib import Path

import pytest

from singerlake import errors
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.gcs.driver import GcsSettings
from tests.servers.gcs.server import ALWAYS, GcsServer, private_key
from tests.storage.buckets import PatientlessClock, body, written
from tests.storage.drivers.gcs.conftest import MakeGcs, on

SECRETS = ("secret-token", "PRIVATE KEY", "secret-key-id", "secret-0")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing that google-auth would find on this machine."""
    for name in ("GOOGLE_APPLICATION_CREDENTIALS", "STORAGE_EMULATOR_HOST", "GOOGLE_CLOUD_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path / "gcloud"))
    monkeypatch.setenv("NO_GCE_CHECK", "true")


def tells_no_secret(*texts: str) -> bool:
    lines = private_key().splitlines()
    return not any(secret in text for text in texts for secret in (*SECRETS, *lines))


class TestWhoIsMeant:
    @pytest.mark.parametrize("named_by", ["json", "file", "environment"])
    def test_a_service_account_writes_with_a_token(
        self, gcs: GcsServer, make: MakeGcs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named_by: str
    ) -> None:
        key = tmp_path / "key.json"
        key.write_text(gcs.service_account())
        if named_by == "environment":
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(key))
        settings = {"json": {"service_account_json": key.read_text()}, "file": {"service_account_file": str(key)}}
        storage = make(**settings.get(named_by, {}))
        gcs.refuse_strangers()
        gcs.requests()
        written(storage.put("a", b"1", if_absent=True))
        storage.delete_all(["a"])
        seen = gcs.requests()
        assert [request.operation for request in seen] == ["token", "insert", "batch"]
        assert all(request.authorized for request in seen[1:])

    def test_workload_identity_exchanges_the_token_of_another_cloud(
        self, gcs: GcsServer, make: MakeGcs, tmp_path: Path
    ) -> None:
        (tmp_path / "subject").write_text("secret-token-of-another-cloud")
        config = {
            "type": "external_account",
            "audience": "//iam.googleapis.com/projects/1/locations/global/workloadIdentityPools/p/providers/q",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": f"{gcs.endpoint_url}/token",
            "credential_source": {"file": str(tmp_path / "subject")},
        }
        storage = make(service_account_json=json.dumps(config))
        gcs.refuse_strangers()
        gcs.requests()
        written(storage.put("a", b"1"))
        assert gcs.operations() == ["token", "insert"]

    @pytest.mark.parametrize("named_by", ["setting", "environment", "environment without scheme"])
    def test_a_server_that_is_not_google_s_is_spoken_to_as_a_stranger(
        self,
        gcs: GcsServer,
        bucket: str,
        clock: PatientlessClock,
        monkeypatch: pytest.MonkeyPatch,
        named_by: str,
    ) -> None:
        monkeypatch.setattr("google.auth.default", lambda **_: pytest.fail("google-auth was asked"))
        settings = gcs.settings()
        if named_by != "setting":
            host = gcs.endpoint_url.removeprefix("http://") if "without" in named_by else gcs.endpoint_url
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", host)
            settings = GcsSettings()
        storage = on(bucket, settings, clock)
        gcs.requests()
        written(storage.put("a", b"1"))
        assert [request.authorized for request in gcs.requests()] == [False]

    @pytest.mark.parametrize("endpoint", [None, "https://storage.googleapis.com", "https://storage-x.p.googleapis.com"])
    def test_google_is_never_spoken_to_as_a_stranger(self, clock: PatientlessClock, endpoint: str | None) -> None:
        storage = on("bucket", GcsSettings(endpoint_url=endpoint), clock)
        with pytest.raises(errors.AccessDeniedError, match=r"there are no credentials.*gcs_service_account_file"):
            storage.get("a")

    def test_a_server_that_wants_credentials_says_so(self, gcs: GcsServer, storage: CloudStorage) -> None:
        gcs.refuse_strangers()
        with pytest.raises(errors.AccessDeniedError, match=r"wants credentials.*gcs_service_account_file.*Anonymous"):
            storage.get("a")

    def test_each_write_names_the_key_and_each_request_who_pays(
        self, gcs: GcsServer, make: MakeGcs, tmp_path: Path
    ) -> None:
        storage = make(kms_key_name="projects/p/locations/l/keyRings/r/cryptoKeys/k", user_project="payer")
        (tmp_path / "file").write_bytes(b"1")
        gcs.requests()
        storage.put("a", b"1")
        storage.upload("b", tmp_path / "file")
        storage.compose("c", [b"1"])
        storage.get("a")
        list(storage.list(""))
        storage.delete("a")
        seen = gcs.requests()
        assert all(request.query["userProject"] == "payer" for request in seen)
        assert {request.operation for request in seen if "kmsKeyName" in request.query} == {"insert"}


class TestTokens:
    @pytest.fixture
    def storage(self, gcs: GcsServer, make: MakeGcs) -> CloudStorage:
        storage = make(service_account_json=gcs.service_account())
        gcs.refuse_strangers()
        storage.put("a", b"1")
        return storage

    def test_a_token_that_expired_in_the_middle_is_renewed(
        self, gcs: GcsServer, storage: CloudStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("singerlake.storage.drivers.gcs.driver.LONG", 1 << 20)
        monkeypatch.setattr("singerlake.storage.drivers.gcs.driver.BLOCK", 1 << 20)
        data = bytes(range(256)) * (3 << 12)
        (tmp_path / "file").write_bytes(data)
        for call in (
            lambda: body(storage, "a") == b"1",
            lambda: storage.put("new", data, if_absent=True),
            lambda: storage.upload("uploaded", tmp_path / "file"),
        ):
            gcs.expire_tokens()
            assert call()
        assert body(storage, "new") == data
        assert body(storage, "uploaded") == data

    def test_a_token_that_is_never_accepted_is_a_clear_error(self, gcs: GcsServer, storage: CloudStorage) -> None:
        gcs.fail("insert", status=401, reason="authError", message="Invalid Credentials", times=ALWAYS)
        with pytest.raises(errors.AccessDeniedError, match=r"not accept the credentials.*gcs_service_account_json"):
            storage.put("b", b"1")

    def test_a_key_that_was_deleted_is_a_clear_error_and_nothing_was_written(
        self, gcs: GcsServer, storage: CloudStorage
    ) -> None:
        gcs.expire_tokens()
        gcs.fail("token", status=400, reason="invalid_grant", message="Invalid JWT Signature.", times=ALWAYS)
        with pytest.raises(errors.AccessDeniedError, match=r"no access token was given.*gcs_service_account_json"):
            storage.put("b", b"1", if_absent=True)
        gcs.calm()
        assert storage.get("b") is None

    @pytest.mark.parametrize("name", ["gcs_service_account_file", "GOOGLE_APPLICATION_CREDENTIALS"])
    def test_the_file_is_named_by_what_names_it(
        self, gcs: GcsServer, make: MakeGcs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
    ) -> None:
        (tmp_path / "key").write_text(gcs.service_account())
        of_setting = name.startswith("gcs_")
        if not of_setting:
            monkeypatch.setenv(name, str(tmp_path / "key"))
        storage = make(**({"service_account_file": str(tmp_path / "key")} if of_setting else {}))
        gcs.fail("insert", status=401, reason="authError", message="Invalid Credentials", times=ALWAYS)
        with pytest.raises(errors.AccessDeniedError, match=f"not accept the credentials; check {name},"):
            storage.put("b", b"1")
        gcs.expire_tokens()
        gcs.fail("token", status=400, reason="invalid_grant", message="Invalid JWT Signature.", times=ALWAYS)
        with pytest.raises(errors.AccessDeniedError, match=f"no access token was given.*; check {name}:"):
            storage.get("b")

    def test_a_server_of_tokens_that_is_gone_is_waited_for(
        self, gcs: GcsServer, make: MakeGcs, clock: PatientlessClock
    ) -> None:
        storage = make(service_account_json=gcs.service_account(token_uri="http://127.0.0.1:9/token"))
        with pytest.raises(errors.StorageUnavailableError, match=r"access tokens does not answer.*token_uri.*refused"):
            storage.get("a")
        assert 15 <= sum(clock.slept) <= 61

    def test_a_server_of_tokens_that_hangs_up_is_asked_again(self, gcs: GcsServer, storage: CloudStorage) -> None:
        gcs.expire_tokens()
        gcs.drop_request("token", times=2)
        assert body(storage, "a") == b"1"


class TestSecrets:
    def test_settings_travel_to_other_processes(self, gcs: GcsServer) -> None:
        settings = gcs.settings(service_account_json=gcs.service_account())
        assert pickle.loads(pickle.dumps(settings)) == settings

    @pytest.mark.parametrize(
        "text",
        ["{", "[1]", "null", '"type"', "{}", '{"type": 1}', "-----BEGIN PRIVATE KEY-----\nsecret-key-id"],
    )
    def test_what_is_no_key_is_refused_without_being_shown(self, text: str) -> None:
        with pytest.raises(errors.SettingError, match="gcs_service_account_json") as caught:
            GcsSettings(service_account_json=text)
        shown = "".join(traceback.format_exception(caught.value))
        assert "secret" not in shown
        assert "Expecting" not in shown

    @pytest.mark.parametrize("broken", ["private_key", "type", "client_email"])
    @pytest.mark.parametrize("where", ["json", "file"])
    def test_a_key_that_cannot_be_used_is_refused_without_being_shown(
        self, gcs: GcsServer, make: MakeGcs, tmp_path: Path, broken: str, where: str
    ) -> None:
        key = json.loads(gcs.service_account(**{broken: "secret-key-id" if broken != "client_email" else None}))
        if broken == "client_email":
            del key["client_email"]
        (tmp_path / "key").write_text(json.dumps(key))
        setting = f"service_account_{where}"
        value = {"json": json.dumps(key), "file": str(tmp_path / "key")}[where]
        with pytest.raises(errors.SettingError, match=f"gcs_{setting} holds no credentials") as caught:
            make(**{setting: value}).get("a")
        assert tells_no_secret("".join(traceback.format_exception(caught.value)))

    @pytest.mark.parametrize("content", [None, "not JSON secret-key-id"])
    def test_a_key_file_that_is_none_is_named(self, make: MakeGcs, tmp_path: Path, content: str | None) -> None:
        if content is not None:
            (tmp_path / "key").write_text(content)
        with pytest.raises(errors.SettingError, match="gcs_service_account_file") as caught:
            make(service_account_file=str(tmp_path / "key")).get("a")
        assert tells_no_secret("".join(traceback.format_exception(caught.value)))

    def test_settings_drivers_and_logs_show_none(
        self,
        gcs: GcsServer,
        make: MakeGcs,
        tmp_path: Path,
        caplog: pytest.LogCaptureFixture,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        monkeypatch.setattr("singerlake.storage.drivers.gcs.driver.LONG", 1 << 20)
        caplog.set_level(logging.DEBUG)
        # Another storage may have held it at another level.
        caplog.set_level(logging.DEBUG, logger="urllib3")
        (tmp_path / "file").write_bytes(bytes(2 << 20))
        settings = gcs.settings(service_account_json=gcs.service_account())
        storage = make(service_account_json=gcs.service_account())
        storage.upload("a", tmp_path / "file")
        gcs.fail("insert", status=400, reason="invalid", message=f"what of {settings.service_account_json}?")
        with pytest.raises(errors.SettingError) as caught:
            storage.put("b", b"1")
        logged = [f"{record.getMessage()} {record.__dict__}" for record in caplog.records]
        assert any("upload" in text for text in logged), "urllib3's log is seen here"
        assert tells_no_secret(repr(settings), repr(storage), str(caught.value), *logged)
        assert "***" in str(caught.value)

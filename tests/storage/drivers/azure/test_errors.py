"""What Azure says becomes an error that names the setting and the next step, and nothing that opens a lake."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from singerlake import errors
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.azure.driver import AzureDriver
from singerlake.storage.drivers.azure.errors import EXPLAINED, meaning, translate
from singerlake.storage.drivers.azure.settings import AzureSettings
from singerlake.storage.lost_replies import Meaning
from singerlake.storage.port import Part, Storage
from tests.fakes import FakeClock
from tests.servers.azurite import Azurite
from tests.servers.fault_proxy.proxy import ALWAYS, FaultProxy
from tests.storage.drivers.azure.opening import KEY, Make, answering, error_body, opened

SIGNATURE = "hush%2Bhush%3D"
SAS = f"sv=2024-11-04&ss=b&srt=co&sp=rl&sig={SIGNATURE}"
IDS = {"x-ms-request-id": "1"}
XML = {"Content-Type": "application/xml"}
CALLS: dict[str, Callable[[Storage], object]] = {
    "get": lambda storage: storage.get("a"),
    "head": lambda storage: storage.head("a"),
    "range": lambda storage: storage.read_range("a", 0, 1),
    "put": lambda storage: storage.put("a", b"1"),
    "create": lambda storage: storage.put("a", b"1", if_absent=True),
    "replace": lambda storage: storage.put("a", b"1", if_match="0x1"),
    "delete": lambda storage: storage.delete("a"),
    "delete_all": lambda storage: storage.delete_all(["a", "b"]),
    "list": lambda storage: list(storage.list("")),
    "list_folder": lambda storage: storage.list_folder(""),
    "upload": lambda storage: storage.upload("a", Path(__file__)),
    "compose": lambda storage: storage.compose("a", [Part("b", 0, 1), Part("c", 0, 1 << 21)]),
}
READS = ("get", "head", "range", "list")


def at(url: str, **settings: Any) -> CloudStorage:
    given = {"account_key": KEY, **settings} if "sas_token" not in settings else settings
    return opened(AzureDriver("lake", "x", AzureSettings(endpoint_url=url, **given)), FakeClock())


@pytest.mark.parametrize("call", CALLS)
def test_a_container_that_is_not_there_is_told_by_every_request(azurite_session: Azurite, call: str) -> None:
    storage = opened(AzureDriver("nowhere", "x", azurite_session.settings()), FakeClock())
    with pytest.raises(errors.NoSuchBucketError, match="container does not exist; check lake_root"):
        CALLS[call](storage)


@pytest.mark.parametrize(
    ("status", "code", "kind", "said"),
    [
        (403, "AuthorizationFailure", errors.AccessDeniedError, "Storage Blob Data Contributor.*racwdl.*networking"),
        (403, "AuthorizationPermissionMismatch", errors.AccessDeniedError, "Storage Blob Data Contributor"),
        (403, "AuthorizationSomethingNew", errors.AccessDeniedError, "storage denied access"),
        (403, "UnauthorizedBlobOverwrite", errors.AccessDeniedError, "racwdl"),
        (403, "AuthorizationResourceTypeMismatch", errors.AccessDeniedError, "srt=co"),
        (403, "AuthenticationFailed", errors.AccessDeniedError, "check azure_account_key.*clock"),
        (401, "NoAuthenticationInformation", errors.AccessDeniedError, "az login"),
        (401, "InvalidAuthenticationInfo", errors.AccessDeniedError, "does not accept the token.*azure_tenant_id"),
        (403, "KeyBasedAuthenticationNotPermitted", errors.AccessDeniedError, "takes no account keys"),
        (403, "AccountIsDisabled", errors.AccessDeniedError, "subscription"),
        (404, "ContainerNotFound", errors.NoSuchBucketError, "create the container"),
        (404, "ResourceNotFound", errors.NoSuchBucketError, "or is not shown"),
        (409, "ContainerBeingDeleted", errors.NoSuchBucketError, "is being deleted"),
        (409, "BlobImmutableDueToPolicy", errors.AccessDeniedError, "legal hold or an immutability policy"),
        (412, "LeaseIdMissing", errors.AccessDeniedError, "break the lease"),
        (409, "SnapshotsPresent", errors.AccessDeniedError, "delete the snapshots"),
        (409, "BlobArchived", errors.AccessDeniedError, "archive tier"),
        (403, "KeyVaultEncryptionKeyNotFound", errors.AccessDeniedError, "key vault"),
        (400, "OutOfRangeInput", errors.NameTooLongError, "shorten the tap id"),
        (400, "InvalidResourceName", errors.SettingError, "check lake_root"),
        (400, "ConditionHeadersNotSupported", errors.ConditionNotSupportedError, "does not know"),
        (501, "APINotImplemented", errors.ConditionNotSupportedError, "does not know"),
        (403, "AccountQuotaExceeded", errors.StorageFullError, "quota"),
        (409, "InvalidBlobType", errors.SettingError, "another kind of object"),
        (400, "SomethingNew", errors.SettingError, "look at code and reason"),
        (500, "InternalError", errors.StorageUnavailableError, "run again later"),
    ],
)
def test_every_code_names_the_next_step(status: int, code: str, kind: type[errors.SingerlakeError], said: str) -> None:
    with answering(status, error_body(code), {"x-ms-error-code": code, **IDS, **XML}) as url:
        storage = at(url)
        for call in ("get", "list"):
            with pytest.raises(kind, match=said) as told:
                CALLS[call](storage)
            assert f"code='{code}', reason='in the server's words'" in str(told.value).replace('"', "'")
        # A HEAD has the code among its headers alone.
        with pytest.raises(kind, match=f"{said}.*{code}"):
            CALLS["head"](storage)


@pytest.mark.parametrize(
    ("status", "code", "means"),
    [
        (409, "BlobAlreadyExists", Meaning.REFUSED),
        (412, "ConditionNotMet", Meaning.REFUSED),
        (412, "TargetConditionNotMet", Meaning.REFUSED),
        (412, "", Meaning.REFUSED),
        (404, "BlobNotFound", Meaning.REFUSED),
        (409, "", Meaning.CONFLICT),
        (409, "SomethingNew", Meaning.CONFLICT),
        (412, "LeaseIdMissing", Meaning.FATAL),
        (409, "BlobImmutableDueToPolicy", Meaning.FATAL),
        (503, "ServerBusy", Meaning.BUSY),
        (429, "", Meaning.BUSY),
        (500, "OperationTimedOut", Meaning.UNKNOWN),
        (500, "InternalError", Meaning.UNKNOWN),
        (503, "", Meaning.UNKNOWN),
        (502, "", Meaning.UNKNOWN),
        (408, "", Meaning.UNKNOWN),
        (403, "", Meaning.FATAL),
        (302, "", Meaning.FATAL),
    ],
)
def test_what_an_answer_says_of_the_effect(status: int, code: str, means: Meaning) -> None:
    headers = {"x-ms-error-code": code, **IDS} if code else {}
    with answering(status, b"", {**headers, "Location": "http://127.0.0.1:1/elsewhere"}) as url:
        driver = AzureDriver("lake", "", AzureSettings(endpoint_url=url, account_key=KEY))
        with pytest.raises(Exception) as told:  # noqa: PT011  # whatever the library raises
            driver.put("a", b"1", if_absent=False, if_match="0x1")
    assert meaning(told.value) is means


@pytest.mark.parametrize(
    ("detail", "said"),
    [
        (
            "Signature not valid in the specified time frame: Start [a] - Expiry [b]",
            "has expired or is not valid yet; renew azure_sas_token, then run again",
        ),
        ("Lifetime validation failed. The token is expired.", "token of Microsoft Entra has expired; run again"),
        ("Request date header too old: 'Mon, 23 Nov 2026'", "this machine's clock.*set the clock"),
        ("Signature did not match", "does not accept the credentials"),
    ],
)
def test_a_token_that_expired_and_a_clock_that_is_wrong_are_told_apart(detail: str, said: str) -> None:
    more = f"<AuthenticationErrorDetail>{detail}</AuthenticationErrorDetail>"
    body = error_body("AuthenticationFailed", more=more)
    with answering(403, body, {"x-ms-error-code": "AuthenticationFailed", **IDS, **XML}) as url:
        for call in ("get", "create", "list"):
            with pytest.raises(errors.AccessDeniedError, match=said):
                CALLS[call](at(url, sas_token=SAS))


PAGE = b"<html><body>Welcome to the guest network</body>"


@pytest.mark.parametrize(
    ("status", "body"), [(200, PAGE), (200, b""), (201, PAGE), (404, PAGE), (404, b""), (418, b"")]
)
@pytest.mark.parametrize("call", CALLS)
def test_a_page_is_no_storage(status: int, body: bytes, call: str) -> None:
    with answering(status, body) as url, pytest.raises(errors.SettingError, match=r"is not Azure.*azure_endpoint_url"):
        CALLS[call](at(url))


def test_what_is_no_xml_is_no_storage() -> None:
    with answering(200, b"<cut", {**IDS, **XML}) as url, pytest.raises(errors.SettingError, match="is not Azure"):
        CALLS["list"](at(url))


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("broken", ["refused", "denied", "cut"])
def test_no_secret_is_shown_wherever_it_breaks(
    proxy: FaultProxy, make: Make, caplog: pytest.LogCaptureFixture, call: str, broken: str
) -> None:
    """In the error, in what led to it, and in the log of a plugin at DEBUG."""
    caplog.set_level(logging.DEBUG)
    storage = make(account_key=None, sas_token=SAS)
    if broken == "refused":
        proxy.shut()
    elif broken == "cut":
        proxy.drop(".", after=True, times=ALWAYS)
    with pytest.raises(errors.SingerlakeError) as told:
        CALLS[call](storage)
    assert "hush" not in shown(told.value, caplog) + repr(storage._driver)


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_repeats_what_it_was_sent_is_not_quoted(call: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    more = f"<QueryParameterName>sig</QueryParameterName><QueryParameterValue>{SIGNATURE}</QueryParameterValue>"
    body = error_body("InvalidQueryParameterValue", f"got {unquote(SIGNATURE)} of ?{SAS.replace('&', '&amp;')}", more)
    with answering(400, body, {"x-ms-error-code": "InvalidQueryParameterValue", **IDS, **XML}) as url:
        with pytest.raises(errors.SettingError, match="InvalidQueryParameterValue") as told:
            CALLS[call](at(url, sas_token=SAS))
        assert "hush" not in shown(told.value, caplog)


def shown(error: Exception, caplog: pytest.LogCaptureFixture) -> str:
    """All that anybody may come to see."""
    return "".join(traceback.format_exception(error)) + caplog.text


@pytest.mark.parametrize("call", CALLS)
def test_an_account_key_that_is_another_s(
    azurite_session: Azurite, call: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    storage = opened(AzureDriver("nowhere", "x", azurite_session.settings(account_key=KEY)), FakeClock())
    with pytest.raises(errors.AccessDeniedError, match="azure_account_key") as told:
        CALLS[call](storage)
    assert KEY not in shown(told.value, caplog)


class Identity:
    """Gives no token."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def get_token(self, *_: str, **__: object) -> None:
        raise self.error


def identity_errors() -> dict[str, tuple[Exception, Meaning, type[errors.SingerlakeError], str]]:
    from azure.core.exceptions import ClientAuthenticationError, ServiceRequestError
    from azure.identity import CredentialUnavailableError

    denied, nowhere = errors.AccessDeniedError, "no credentials for Azure; set azure_account_key.*az login"
    return {
        "none": (CredentialUnavailableError("no endpoint"), Meaning.FATAL, denied, f"{nowhere}.*azure_client_id"),
        "chain": (ClientAuthenticationError("DefaultAzureCredential failed to"), Meaning.FATAL, denied, nowhere),
        "refused": (ClientAuthenticationError("AADSTS7000215: hush"), Meaning.FATAL, denied, "check azure_tenant_id"),
        "gone": (ServiceRequestError("no route"), Meaning.BUSY, errors.StorageUnavailableError, "gave no token"),
    }


@pytest.mark.parametrize("case", ["none", "chain", "refused", "gone"])
@pytest.mark.parametrize("call", ["get", "create", "list", "compose"])
def test_tokens_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch, case: str, call: str) -> None:
    error, means, kind, said = identity_errors()[case]
    monkeypatch.setattr("azure.identity.DefaultAzureCredential", lambda: Identity(error))
    assert meaning(error) is means
    clock = FakeClock()
    storage = opened(AzureDriver("lake", "x", AzureSettings(account_name="acct")), clock)
    with pytest.raises(kind, match=said):
        CALLS[call](storage)
    assert (clock.seconds >= 60) is (means is Meaning.BUSY)


def test_what_is_not_the_library_s_is_raised_as_it_is() -> None:
    for judge in (meaning, lambda error: translate(error, ())):
        with pytest.raises(KeyError):
            judge(KeyError("mine"))


@pytest.mark.parametrize("code", sorted(EXPLAINED))
def test_every_explanation_has_the_form_of_an_error(code: str) -> None:
    kind, message, hint = EXPLAINED[code]
    assert issubclass(kind, errors.SingerlakeError)
    assert message[0].islower() or message.startswith("SAS")
    assert hint or kind is errors.MissingFileError

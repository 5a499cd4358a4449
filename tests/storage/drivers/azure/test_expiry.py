"""A SAS token that is over is called so, by the name of what gave it, also where the server does not say why."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from singerlake import errors
from singerlake.storage.drivers.azure.driver import AzureDriver
from singerlake.storage.drivers.azure.settings import AzureSettings, expiry
from tests.fakes import FakeClock
from tests.storage.drivers.azure.opening import KEY, answering, error_body, opened
from tests.storage.drivers.azure.test_errors import CALLS

OVER, LASTING = "se=2020-01-01T00%3A00%3A00Z&sig=hush", "se=2999-01-01&sig=hush"


@pytest.mark.parametrize(
    ("said", "until"),
    [
        ("se=2026-11-24", datetime(2026, 11, 24, tzinfo=UTC)),
        ("se=2026-11-24T14:30Z", datetime(2026, 11, 24, 14, 30, tzinfo=UTC)),
        ("sv=1&se=2026-11-24T14%3A30%3A05Z&sp=r", datetime(2026, 11, 24, 14, 30, 5, tzinfo=UTC)),
        ("SE=2026-11-24T14:30:05.1234567Z", datetime(2026, 11, 24, 14, 30, 5, 123456, tzinfo=UTC)),
        ("se=2026-11-24T14:30:05%2B02:00", datetime(2026, 11, 24, 12, 30, 5, tzinfo=UTC)),
        ("si=a-policy", None),
        ("se=", None),
        ("se=tomorrow", None),
        ("se=2026-13-01", None),
        ("", None),
    ],
)
def test_when_a_token_says_that_it_is_over(said: str, until: datetime | None) -> None:
    assert expiry(said) == until


def refused(
    call: str, status: int, code: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch, **variables: str
) -> str:
    """What is said where a server answers so."""
    headers = {"x-ms-request-id": "1", "Content-Type": "application/xml", **({"x-ms-error-code": code} if code else {})}
    with answering(status, error_body(code) if code else b"", headers) as url:
        for name, value in variables.items():
            monkeypatch.setenv(name, value.replace("URL", url))
        given = {name: value.replace("URL", url) for name, value in settings.items()}
        if "connection_string" not in given and "AZURE_STORAGE_CONNECTION_STRING" not in variables:
            given["endpoint_url"] = url
        with pytest.raises(errors.AccessDeniedError) as told:
            CALLS[call](opened(AzureDriver("lake", "x", AzureSettings(**given)), FakeClock()))
    assert "hush" not in str(told.value)
    return str(told.value)


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    ("status", "code"),
    [(403, "AuthenticationFailed"), (403, "AuthorizationFailure"), (403, ""), (401, "AuthenticationFailed")],
)
def test_every_request_says_that_the_token_has_expired(
    monkeypatch: pytest.MonkeyPatch, call: str, status: int, code: str
) -> None:
    said = refused(call, status, code, {"sas_token": OVER}, monkeypatch)
    assert said.startswith("the SAS token has expired; renew azure_sas_token, then run again; if it is new, set the")


CONNECTION = f"AccountName=acct;BlobEndpoint=URL;SharedAccessSignature={OVER}"


@pytest.mark.parametrize(
    ("settings", "variables", "name"),
    [
        ({"sas_token": f"?{OVER}"}, {}, "azure_sas_token"),
        ({"connection_string": CONNECTION}, {}, "azure_connection_string"),
        ({}, {"AZURE_STORAGE_CONNECTION_STRING": CONNECTION}, "AZURE_STORAGE_CONNECTION_STRING"),
        ({}, {"AZURE_STORAGE_SAS_TOKEN": OVER, "AZURE_STORAGE_ACCOUNT": "acct"}, "AZURE_STORAGE_SAS_TOKEN"),
    ],
)
def test_what_gave_the_token_is_named(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], variables: dict[str, str], name: str
) -> None:
    assert f"renew {name}, then" in refused("head", 403, "AuthenticationFailed", settings, monkeypatch, **variables)


@pytest.mark.parametrize(
    ("settings", "code", "said"),
    [
        ({"sas_token": LASTING}, "AuthenticationFailed", "does not accept the credentials"),
        ({"sas_token": "si=a-policy&sig=hush"}, "AuthorizationFailure", "storage denied access"),
        ({"account_key": KEY}, "AuthenticationFailed", "does not accept the credentials"),
        ({"sas_token": OVER}, "AccountIsDisabled", "the storage account is disabled"),
        ({"sas_token": OVER}, "AuthorizationSourceIPMismatch", "denied access to this address"),
    ],
)
def test_what_is_refused_for_another_reason_is_told_so(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], code: str, said: str
) -> None:
    assert said in refused("get", 403, code, settings, monkeypatch)

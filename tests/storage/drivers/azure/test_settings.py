"""Which account and which credentials are taken, and what is said of those that are none."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from singerlake import errors
from singerlake.storage.drivers.azure.access import find_access
from singerlake.storage.drivers.azure.driver import AzureDriver
from singerlake.storage.drivers.azure.settings import AzureSettings
from tests.servers.azurite import ACCOUNT, ACCOUNT_KEY, Azurite
from tests.storage.buckets import PatientlessClock, body
from tests.storage.drivers.azure.opening import KEY, opened

HOST = "acct.dfs.core.windows.net"
OTHER = "b3RoZXI="
SAS = "sv=2024-11-04&sp=rl&sig=hush%2Bhush%3D"
CONNECTION = f"DefaultEndpointsProtocol=https;AccountName=acct;AccountKey={KEY};EndpointSuffix=core.windows.net"
BLOB = "https://acct.blob.core.windows.net"


def found(
    settings: dict[str, Any], host: str | None = None, **environment: str
) -> tuple[str, str, str | None, str | None]:
    access = find_access(AzureSettings(**settings), host, environment)
    return access.endpoint, access.account, access.key, access.sas


@pytest.mark.parametrize(
    ("settings", "host", "endpoint"),
    [
        ({"account_name": "acct"}, None, BLOB),
        ({}, HOST, BLOB),
        ({}, "acct.blob.core.windows.net", BLOB),
        ({"account_name": "acct"}, HOST, BLOB),
        ({}, "acct.dfs.core.chinacloudapi.cn", "https://acct.blob.core.chinacloudapi.cn"),
        ({"endpoint_url": "https://host/acct/"}, None, "https://host/acct"),
        ({"endpoint_url": "https://acct.private"}, HOST, "https://acct.private"),
    ],
)
def test_where_the_account_is(settings: dict[str, str], host: str | None, endpoint: str) -> None:
    assert found(settings, host) == (endpoint, "acct", None, None)


@pytest.mark.parametrize(
    ("settings", "environment", "expected"),
    [
        ({"connection_string": CONNECTION}, {}, (BLOB, "acct", KEY, None)),
        ({"connection_string": f"BlobEndpoint={BLOB}/;SharedAccessSignature=?{SAS}"}, {}, (BLOB, "acct", None, SAS)),
        (
            {"connection_string": "UseDevelopmentStorage=true"},
            {},
            (f"http://127.0.0.1:10000/{ACCOUNT}", ACCOUNT, ACCOUNT_KEY, None),
        ),
        ({"account_name": "acct", "account_key": KEY}, {"AZURE_STORAGE_KEY": OTHER}, (BLOB, "acct", KEY, None)),
        ({"account_name": "acct", "sas_token": f"?{SAS}"}, {"AZURE_STORAGE_KEY": OTHER}, (BLOB, "acct", None, SAS)),
        ({}, {"AZURE_STORAGE_CONNECTION_STRING": CONNECTION}, (BLOB, "acct", KEY, None)),
        ({}, {"AZURE_STORAGE_ACCOUNT": "acct", "AZURE_STORAGE_KEY": KEY}, (BLOB, "acct", KEY, None)),
        ({}, {"AZURE_STORAGE_ACCOUNT_NAME": "acct", "AZURE_STORAGE_ACCOUNT_KEY": KEY}, (BLOB, "acct", KEY, None)),
        ({"account_name": "acct"}, {"AZURE_STORAGE_SAS_TOKEN": SAS}, (BLOB, "acct", None, SAS)),
        ({"account_key": KEY}, {"AZURE_STORAGE_ACCOUNT": "acct"}, (BLOB, "acct", KEY, None)),
        # What belongs to another account stays out of it.
        (
            {"account_name": "acct"},
            {"AZURE_STORAGE_ACCOUNT": "x", "AZURE_STORAGE_KEY": OTHER},
            (BLOB, "acct", None, None),
        ),
        (
            {"account_name": "acct"},
            {"AZURE_STORAGE_CONNECTION_STRING": CONNECTION.replace("=acct", "=other")},
            (BLOB, "acct", None, None),
        ),
        ({"account_name": "acct", "client_id": "managed"}, {"AZURE_STORAGE_KEY": OTHER}, (BLOB, "acct", None, None)),
    ],
)
def test_which_credentials_are_taken(
    settings: dict[str, str], environment: dict[str, str], expected: tuple[str, str, str | None, str | None]
) -> None:
    assert found(settings, None, **environment) == expected


def test_no_account_is_an_error_that_says_where_to_name_one() -> None:
    with pytest.raises(errors.SettingError, match=r"account is not known.*azure_account_name.*abfss://"):
        AzureDriver("lake", "", AzureSettings())


@pytest.mark.parametrize(
    ("settings", "host", "said"),
    [
        ({"account_name": "other"}, HOST, "lake_root and azure_account_name name different"),
        ({"connection_string": CONNECTION.replace("=acct", "=other")}, HOST, "azure_connection_string name different"),
        ({"endpoint_url": "http://host/acct"}, None, "not https"),
    ],
)
def test_places_that_contradict_each_other(settings: dict[str, str], host: str | None, said: str) -> None:
    with pytest.raises(errors.SettingError, match=said):
        found(settings, host)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"account_key": KEY, "sas_token": SAS}, "azure_account_key and azure_sas_token are both set"),
        ({"client_secret": "hush"}, "azure_tenant_id"),
        ({"tenant_id": "a"}, "azure_client_secret"),
        ({"client_id": "a", "account_key": KEY}, "azure_client_id and azure_account_key are both set"),
        ({"connection_string": CONNECTION, "endpoint_url": "http://b"}, "both set"),
        ({"endpoint_url": "ftp://b"}, "azure_endpoint_url is not a URL"),
        ({"endpoint_url": "http://b?sig=hush"}, "azure_endpoint_url holds credentials"),
        ({"account_key": "hush\n"}, "azure_account_key is empty or has white space"),
        ({"account_key": "hush!"}, "azure_account_key is not an account key: it is not base64"),
        ({"account_key": KEY[:-2]}, "azure_account_key is not an account key: it is not base64"),
        ({"sas_token": "hush"}, "azure_sas_token is not a SAS token"),
        ({"sas_token": f"https://acct.blob.core.windows.net/lake?{SAS}"}, "azure_sas_token is not a SAS token"),
        ({"connection_string": "hush"}, "azure_connection_string is not a connection string: a part of it"),
        (
            {"connection_string": "hush;AccountName=a"},
            "azure_connection_string is not a connection string: a part of it",
        ),
        ({"connection_string": f"AccountKey={KEY}"}, "neither AccountName nor BlobEndpoint"),
        ({"connection_string": "AccountName=acct"}, "neither AccountKey nor SharedAccessSignature"),
        (
            {"connection_string": "AccountName=acct;AccountKey=hush!"},
            "the AccountKey of azure_connection_string is not",
        ),
        ({"connection_string": f"BlobEndpoint=hush;SharedAccessSignature={SAS}"}, "its BlobEndpoint is not a URL"),
        ({"connection_string": f"BlobEndpoint={BLOB};AccountKey={KEY}"}, "an AccountKey and no AccountName"),
        ({"patience_seconds": -1}, "patience_seconds"),
    ],
)
def test_settings_that_are_none_are_named_and_not_shown(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(errors.SettingError, match=said) as told:
        AzureSettings(**settings)
    assert "hush" not in str(told.value)
    assert KEY[:-2] not in str(told.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("CONNECTION_STRING", "hush", "AZURE_STORAGE_CONNECTION_STRING is not a connection string"),
        ("KEY", "hush!", "AZURE_STORAGE_KEY is not an account key"),
        ("SAS_TOKEN", "hush", "AZURE_STORAGE_SAS_TOKEN is not a SAS token"),
    ],
)
def test_variables_that_are_none_are_named_and_not_shown(name: str, value: str, said: str) -> None:
    with pytest.raises(errors.SettingError, match=said) as told:
        found({"account_name": "acct"}, None, **{f"AZURE_STORAGE_{name}": value})
    assert "hush" not in str(told.value)


def test_nothing_of_it_is_shown() -> None:
    for settings in (
        AzureSettings(account_key=KEY, account_name="acct"),
        AzureSettings(sas_token=SAS, account_name="acct"),
        AzureSettings(connection_string=CONNECTION),
        AzureSettings(connection_string=f"BlobEndpoint={BLOB};SharedAccessSignature={SAS}"),
        AzureSettings(client_secret="hush", client_id="a", tenant_id="b", account_name="acct"),
    ):
        access = find_access(settings, None, {})
        for secret in (KEY, SAS, "hush%2Bhush%3D", "hush+hush="):
            assert secret not in repr(settings) + repr(access)
        assert set(settings.secrets()) <= set(access.secrets())
    assert {SAS, "hush%2Bhush%3D", "hush+hush="} <= set(AzureSettings(sas_token=f"?{SAS}").secrets()) | {SAS}


@pytest.mark.parametrize(("host", "url"), [(None, "az://lake/a/b"), (HOST, f"abfss://lake@{HOST}/a/b")])
def test_the_url_is_the_root(host: str | None, url: str) -> None:
    driver = AzureDriver("lake", "a/b", AzureSettings(account_name="acct", account_key=KEY), account_host=host)
    assert (driver.url, driver.place, driver.identity) == (url, BLOB, (BLOB, "lake"))
    assert AzureDriver("lake", "", AzureSettings(account_name="acct")).url == "az://lake"


def test_the_variables_of_the_azure_cli_are_enough(
    azurite_session: Azurite, container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};BlobEndpoint={azurite_session.url}/{ACCOUNT};"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    storage = opened(AzureDriver(container, "lake", AzureSettings()), PatientlessClock())
    storage.put("a", b"1")
    assert body(storage, "a") == b"1"


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"client_secret": "s", "client_id": "c", "tenant_id": "t"}, "ClientSecretCredential"),
        ({"client_id": "c"}, "ManagedIdentityCredential"),
        ({}, "DefaultAzureCredential"),
    ],
)
def test_whose_token_is_asked_for(settings: dict[str, str], kind: str) -> None:
    driver = AzureDriver("lake", "", AzureSettings(account_name="acct", **settings))  # type: ignore[arg-type]
    client = driver._client
    assert client.token is not None
    assert type(client.container.credential).__name__ == kind


def test_nothing_of_the_library_is_imported_before_the_first_request() -> None:
    code = (
        "import sys; from singerlake.storage.drivers.azure.driver import AzureDriver as D, AzureSettings as S; "
        "D('lake', 'a', S(account_name='acct')); "
        "print([name for name in sys.modules if name.split('.')[0] in ('azure', 'requests', 'msal')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

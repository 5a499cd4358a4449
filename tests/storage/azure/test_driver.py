"""Azure Blob Storage by Azurite, behind a network that loses answers, and what its errors say."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake import errors
from singerlake.clock import SystemClock, random_id
from singerlake.storage.azure.client import account_url
from singerlake.storage.azure.driver import AzureDriver
from singerlake.storage.azure.names import to_key, to_name, to_prefix
from singerlake.storage.azure.settings import AzureSettings
from singerlake.storage.clouds.storage import CloudStorage
from singerlake.storage.port import Refused, Written
from tests.servers.azurite import ACCOUNT, ACCOUNT_KEY, Azurite, azurite
from tests.servers.fault_proxy.proxy import FaultProxy, http_fault_proxy
from tests.storage.buckets import body, written


@pytest.fixture(scope="module")
def server() -> Iterator[Azurite]:
    with azurite() as running:
        running.create_container("lake")
        yield running


@pytest.fixture(scope="module")
def proxied(server: Azurite) -> Iterator[FaultProxy]:
    with http_fault_proxy(server.url) as running:
        yield running


@pytest.fixture
def proxy(proxied: FaultProxy) -> Iterator[FaultProxy]:
    proxied.calm()
    yield proxied
    proxied.calm()


def opened(settings: AzureSettings, container: str = "lake", *, patience: float = 5) -> CloudStorage:
    driver = AzureDriver(container, f"a lake/{random_id()}", settings)
    return CloudStorage(driver, probe_max_wait=5, patience_seconds=patience, clock=SystemClock(), ids=random_id)


def behind(proxy: FaultProxy) -> CloudStorage:
    return opened(AzureSettings(account_key=ACCOUNT_KEY, endpoint_url=f"{proxy.url}/{ACCOUNT}"))


class TestLostReplies:
    @pytest.mark.parametrize("after", [True, False])
    def test_a_create_is_written_once(self, proxy: FaultProxy, after: bool) -> None:
        storage = behind(proxy)
        fault = proxy.drop(r"PUT .*/a\b", after=after)
        assert isinstance(storage.put("a", b"mine", if_absent=True), Written)
        assert (body(storage, "a"), fault.hits) == (b"mine", 1)

    @pytest.mark.parametrize("after", [True, False])
    def test_a_replacement_is_written_once(self, proxy: FaultProxy, after: bool) -> None:
        storage = behind(proxy)
        etag = written(storage.put("a", b"old"))
        fault = proxy.drop(r"PUT .*/a\b", after=after)
        assert isinstance(storage.put("a", b"new", if_match=etag), Written)
        assert (body(storage, "a"), fault.hits) == (b"new", 1)
        assert isinstance(storage.put("a", b"late", if_match=etag), Refused)

    @pytest.mark.parametrize("after", [True, False])
    def test_a_deletion_is_done(self, proxy: FaultProxy, after: bool) -> None:
        storage = behind(proxy)
        etag = written(storage.put("a", b"1"))
        fault = proxy.drop(r"DELETE .*/a\b", after=after)
        assert storage.delete("a", if_match=etag)
        assert (body(storage, "a"), fault.hits) == (None, 1)

    @pytest.mark.parametrize("status", [429, 500, 503])
    def test_a_storm_is_waited_for(self, proxy: FaultProxy, status: int) -> None:
        storage = behind(proxy)
        storage.put("a", b"1")
        fault = proxy.error(r"/a\b", status=status, code="Busy", times=3)
        assert body(storage, "a") == b"1"
        assert fault.hits == 3

    def test_a_body_that_is_cut_off_is_read_again(self, proxy: FaultProxy) -> None:
        storage = behind(proxy)
        storage.put("a", bytes(100_000))
        fault = proxy.cut_reply(r"GET .*/a\b")
        assert body(storage, "a") == bytes(100_000)
        assert fault.hits == 1

    def test_a_server_that_is_gone_is_an_error(self, proxy: FaultProxy) -> None:
        storage = opened(AzureSettings(account_key=ACCOUNT_KEY, endpoint_url=f"{proxy.url}/{ACCOUNT}"), patience=0)
        storage.put("a", b"1")
        proxy.shut()
        with pytest.raises(errors.StorageUnavailableError, match="no longer does"):
            storage.get("a")


class TestErrors:
    def test_a_container_that_is_not_there(self, server: Azurite) -> None:
        storage = opened(server.settings(), "nowhere")
        for call in (
            lambda: storage.get("a"),
            lambda: storage.head("a"),
            lambda: storage.put("a", b""),
            lambda: storage.delete("a"),
            lambda: list(storage.list("")),
            lambda: storage.read_range("a", 0, 1),
        ):
            with pytest.raises(errors.NoSuchBucketError, match="container does not exist"):
                call()

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"account_key": "c2VjcmV0LXNlY3JldA=="}, "check azure_account_key"),
            ({"account_key": "no key"}, "no Azure client can be made|credentials"),
            ({"account_key": None, "sas_token": "sv=2024-11-04&sig=hushhush"}, "Azure"),
            ({"account_key": None, "connection_string": "hush", "endpoint_url": None}, "no Azure client can be made"),
        ],
    )
    def test_credentials_that_are_none(
        self,
        server: Azurite,
        change: dict[str, str | None],
        match: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.DEBUG)
        settings = server.settings(**change)
        with pytest.raises(errors.ConfigurationError, match=match) as raised:
            opened(settings).get("a")
        shown = f"{raised.value} {settings!r} {caplog.text}"
        for secret in (*settings.secrets(), "hush"):
            assert secret not in shown

    def test_no_account(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_CONNECTION_STRING"):
            monkeypatch.delenv(name, raising=False)
        with pytest.raises(errors.SettingError, match="azure_account_name"):
            AzureDriver("lake", "", AzureSettings())

    @pytest.mark.parametrize("prefix", ["a./b", "a\\b", "a//b", "..", "a/."])
    def test_a_root_that_azure_cannot_keep(self, server: Azurite, prefix: str) -> None:
        with pytest.raises(errors.SettingError, match="Azure cannot keep"):
            AzureDriver("lake", prefix, server.settings())

    @pytest.mark.parametrize(
        ("change", "match"),
        [
            ({"account_key": "a", "sas_token": "b"}, "azure_account_key and azure_sas_token are both set"),
            ({"client_secret": "a"}, "azure_tenant_id"),
            ({"connection_string": "a", "endpoint_url": "http://b"}, "both set"),
            ({"endpoint_url": "ftp://b"}, "azure_endpoint_url is not a URL"),
            ({"endpoint_url": "http://b?sig=c"}, "azure_endpoint_url holds credentials"),
            ({"account_key": "a\n"}, "azure_account_key is empty or has white space"),
            ({"patience_seconds": -1}, "patience_seconds"),
        ],
    )
    def test_settings_that_contradict_each_other(self, change: dict[str, object], match: str) -> None:
        with pytest.raises(errors.SettingError, match=match):
            AzureSettings(**change)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "host", "environment", "url"),
    [
        (AzureSettings(account_name="acct"), None, {}, "https://acct.blob.core.windows.net"),
        (AzureSettings(), "acct.dfs.core.windows.net", {}, "https://acct.blob.core.windows.net"),
        (AzureSettings(), None, {"AZURE_STORAGE_ACCOUNT": "acct"}, "https://acct.blob.core.windows.net"),
        (AzureSettings(endpoint_url="http://h:1/acct/"), None, {}, "http://h:1/acct"),
        (AzureSettings(), None, {"AZURE_STORAGE_CONNECTION_STRING": "text"}, None),
    ],
)
def test_where_the_account_is(
    settings: AzureSettings, host: str | None, environment: dict[str, str], url: str | None
) -> None:
    assert account_url(settings, host, environment) == url


def test_the_environment_of_the_azure_cli_is_enough(server: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"AccountName={ACCOUNT};AccountKey={ACCOUNT_KEY};BlobEndpoint={server.url}/{ACCOUNT};"
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    storage = opened(AzureSettings())
    storage.put("a", b"1")
    assert body(storage, "a") == b"1"


@pytest.mark.parametrize("host", [None, "acct.dfs.core.windows.net"])
def test_the_url_is_the_root(host: str | None) -> None:
    driver = AzureDriver("lake", "a/b", AzureSettings(account_name="acct"), account_host=host)
    assert driver.url == ("az://lake/a/b" if host is None else f"abfss://lake@{host}/a/b")


KEY = st.text(st.characters(codec="utf-8") | st.sampled_from("~./\\\x01\x7f2E"), min_size=1)


@given(key=KEY)
def test_every_key_has_a_name_that_azure_keeps(key: str) -> None:
    name = to_name(key)
    assert to_key(name) == key
    assert not re.search(r"[\\\x00-\x1f\x7f]|\.(?:/|\Z)", name)


@given(key=KEY, rest=KEY)
def test_the_names_below_a_prefix_begin_with_its_name(key: str, rest: str) -> None:
    if key.endswith(".") and rest.startswith("/"):
        return
    assert to_name(key + rest).startswith(to_prefix(key))


def test_an_upload_in_blocks_is_whole(server: Azurite, tmp_path: Path) -> None:
    storage, path = opened(server.settings()), tmp_path / "file"
    with path.open("wb") as file:
        file.truncate((64 << 20) + 5)
        file.seek(1 << 20)
        file.write(b"here")
    assert storage.upload("data", path) == (64 << 20) + 5
    assert storage.read_range("data", 1 << 20, 4) == b"here"
    with suppress(FileNotFoundError):
        path.unlink()

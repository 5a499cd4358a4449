"""A server that restarts, that is down for long, and that never was there."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from singerlake import errors
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.azure import driver as azure_driver
from singerlake.storage.drivers.azure.driver import AzureDriver
from singerlake.storage.port import Part, Storage
from tests.fakes import FakeClock
from tests.servers.azurite import ACCOUNT, Azurite
from tests.servers.ports.door import Door, door_to
from tests.storage.buckets import body
from tests.storage.drivers.azure.opening import opened

LARGE = bytes(range(256)) * (4096 + 1)
CALLS: dict[str, Callable[[Storage, Path], object]] = {
    "get": lambda storage, path: storage.get("a"),
    "upload": lambda storage, path: storage.upload("new", path),
    "compose": lambda storage, path: storage.compose("new", [Part("large", 0, len(LARGE)), b"end"]),
}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def door(azurite_session: Azurite) -> Iterator[Door]:
    with door_to(azurite_session.url) as door:
        yield door


@pytest.fixture
def storage(azurite_session: Azurite, container: str, door: Door, clock: FakeClock) -> CloudStorage:
    """Behind an open door, with something in it; it has answered."""
    door.open()
    settings = azurite_session.settings(endpoint_url=f"{door.endpoint_url}/{ACCOUNT}")
    storage = opened(AzureDriver(container, "lake", settings), clock)
    storage.put("a", b"1")
    storage.put("large", LARGE)
    return storage


def restart(door: Door, clock: FakeClock, seconds: float) -> None:
    """Shut the door now, and open it after so long on the clock."""
    door.shut()
    until = clock.seconds + seconds
    clock.on_sleep = lambda _: door.open() if clock.seconds >= until else None


@pytest.mark.parametrize("call", CALLS)
def test_what_a_driver_does_waits_for_a_server_that_restarts(
    storage: CloudStorage, door: Door, clock: FakeClock, tmp_path: Path, call: str
) -> None:
    (tmp_path / "spool").write_bytes(b"1")
    restart(door, clock, 40)
    CALLS[call](storage, tmp_path / "spool")
    assert 40 <= clock.seconds < 50


def test_a_file_in_blocks_goes_up_over_a_restart(
    storage: CloudStorage, door: Door, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_driver, "BLOCK", 1 << 20)
    monkeypatch.setattr("singerlake.storage.drivers.azure.driver.ONE_PUT", 1 << 20)
    (tmp_path / "spool").write_bytes(LARGE * 4)
    restart(door, clock, 20)
    assert storage.upload("new", tmp_path / "spool") == 4 * len(LARGE)
    assert body(storage, "new") == LARGE * 4


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_stays_down_is_given_up_after_the_patience(
    storage: CloudStorage, door: Door, clock: FakeClock, tmp_path: Path, call: str
) -> None:
    (tmp_path / "spool").write_bytes(b"1")
    door.shut()
    with pytest.raises(errors.StorageUnavailableError, match=r"answered before.*patience_seconds.*waited_seconds=6\d"):
        CALLS[call](storage, tmp_path / "spool")
    assert 60 <= clock.seconds < 62, "what is looked up afterwards does not wait as long again"


@pytest.mark.usefixtures("first_contact")
def test_a_port_where_nobody_ever_answered_is_given_up_sooner_and_named(
    azurite_session: Azurite, clock: FakeClock, door: Door
) -> None:
    settings = azurite_session.settings(endpoint_url=f"{door.endpoint_url}/{ACCOUNT}")
    with pytest.raises(errors.StorageUnavailableError, match=r"never answered.*port of azure_endpoint_url.*refused"):
        opened(AzureDriver("lake", "", settings), clock).get("a")
    assert 15 <= clock.seconds < 16


def test_a_host_name_that_nobody_knows_is_an_error_of_the_settings_at_once(
    azurite_session: Azurite, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_such_host(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_host)
    settings = azurite_session.settings(endpoint_url="http://storage.invalid:9000/acct")
    with pytest.raises(errors.SettingError, match=r"host name of storage is not known; check lake_root, azure_account"):
        opened(AzureDriver("lake", "", settings), clock).get("a")
    assert clock.seconds < 1


def test_a_server_without_tls_is_an_error_at_once(azurite_session: Azurite, clock: FakeClock) -> None:
    settings = azurite_session.settings(endpoint_url=f"{azurite_session.url.replace('http:', 'https:')}/{ACCOUNT}")
    with pytest.raises(errors.StorageUnavailableError, match="cannot be reached; check host and port"):
        opened(AzureDriver("lake", "", settings), clock).get("a")
    assert clock.seconds == 0

"""Google Cloud Storage that restarts, that is down for long, and that never was there."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from singerlake import errors
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.gcs import upload
from singerlake.storage.drivers.gcs.driver import GcsDriver
from singerlake.storage.drivers.gcs.upload import LEAST
from singerlake.storage.port import Part, Storage
from tests.fakes import FakeClock
from tests.servers.gcs.server import GcsServer
from tests.servers.ports.door import Door, door_to
from tests.storage.buckets import body
from tests.storage.drivers.gcs.conftest import on

LARGE = bytes(range(256)) * (17 * LEAST // 256)
CALLS: dict[str, Callable[[Storage, Path], object]] = {
    "get": lambda storage, path: storage.get("a"),
    "upload": lambda storage, path: storage.upload("new", path),
    "compose": lambda storage, path: storage.compose("new", [Part("large", 0, len(LARGE)), b"end"]),
}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def door(gcs: GcsServer) -> Iterator[Door]:
    with door_to(gcs.endpoint_url) as door:
        yield door


@pytest.fixture
def storage(gcs: GcsServer, bucket: str, door: Door, clock: FakeClock) -> CloudStorage:
    """Behind an open door, with something in it; it has answered."""
    door.open()
    storage = on(bucket, gcs.settings(endpoint_url=door.endpoint_url), clock)
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
    monkeypatch.setattr("singerlake.storage.drivers.gcs.driver.LONG", 1 << 20)
    monkeypatch.setattr("singerlake.storage.drivers.gcs.driver.BLOCK", 1 << 20)
    (tmp_path / "spool").write_bytes(LARGE[: 5 << 20])
    restart(door, clock, 40)
    assert storage.upload("new", tmp_path / "spool") == 5 << 20
    assert body(storage, "new") == LARGE[: 5 << 20]
    assert upload.BLOCK % (256 << 10) == 0


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_stays_down_is_given_up_after_the_patience(
    storage: CloudStorage, door: Door, clock: FakeClock, tmp_path: Path, call: str
) -> None:
    (tmp_path / "spool").write_bytes(b"1")
    door.shut()
    with pytest.raises(errors.StorageUnavailableError, match=r"answered before.*patience_seconds.*waited_seconds=6\d"):
        CALLS[call](storage, tmp_path / "spool")
    assert 60 <= clock.seconds < 62, "what is looked up and cleaned up afterwards does not wait as long again"


@pytest.mark.usefixtures("first_contact")
def test_a_port_where_nobody_ever_answered_is_given_up_sooner_and_named(
    gcs: GcsServer, clock: FakeClock, door: Door
) -> None:
    settings = gcs.settings(endpoint_url=door.endpoint_url)
    with pytest.raises(errors.StorageUnavailableError, match=r"never answered.*port of gcs_endpoint_url.*refused"):
        on("bucket", settings, clock).get("a")
    assert 15 <= clock.seconds < 16


def no_such_host(*_: object, **__: object) -> object:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def test_a_host_name_that_nobody_knows_is_an_error_of_the_settings_at_once(
    gcs: GcsServer, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", no_such_host)
    settings = gcs.settings(endpoint_url="http://storage.invalid:9000")
    with pytest.raises(errors.SettingError, match=r"host name of storage is not known; check gcs_endpoint_url"):
        on("bucket", settings, clock).get("a")
    assert clock.seconds < 1


def test_the_patience_is_a_setting(gcs: GcsServer, storage: CloudStorage, door: Door, clock: FakeClock) -> None:
    hasty = on("bucket", gcs.settings(endpoint_url=door.endpoint_url, patience_seconds=7), clock)
    door.shut()
    with pytest.raises(errors.StorageUnavailableError, match="waited_seconds=7"):
        hasty.get("a")


def test_a_stream_goes_on_at_the_byte_where_a_restart_cut_it(
    storage: CloudStorage, door: Door, clock: FakeClock
) -> None:
    with storage.open("large", 100) as stream:
        begun = stream.read(1000)
        restart(door, clock, 40)
        rest = b"".join(iter(lambda: stream.read(1 << 20), b""))
    assert begun + rest == LARGE[100:]
    assert clock.seconds >= 40


def test_a_port_that_speaks_no_tls_is_an_error_at_once(gcs: GcsServer, clock: FakeClock) -> None:
    settings = gcs.settings(endpoint_url=gcs.endpoint_url.replace("http:", "https:"))
    with pytest.raises(errors.StorageUnavailableError, match=r"cannot be reached; check host and port of gcs_endpoint"):
        on("bucket", settings, clock).get("a")
    assert clock.seconds == 0


def test_connections_are_kept(gcs: GcsServer, bucket: str, clock: FakeClock) -> None:
    driver = GcsDriver(bucket, "lake", gcs.settings())
    driver.put("a", b"1" * 100_000, if_absent=False, if_match=None)
    for _ in range(5):
        assert driver.get("a") is not None
        assert driver.get_range("a", 10, 20) is not None
        assert driver.get_range("a", 200_000, 20) is not None
        assert driver.get("absent") is None
        driver.page("", folders=False, start_after="", token=None)
        driver.delete_many(["b"])
    pools = driver._bucket.client.library._http.get_adapter("http://").poolmanager.pools
    (pool,) = pools.keys()
    assert pools[pool].num_connections == 1

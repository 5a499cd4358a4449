"""Each cloud's server that restarts, that is down for long, and that never was there: what its driver makes of it.

What all clouds share, from waiting to looking up what arrived, is in ``tests/storage/cloud``.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from singerlake import errors
from singerlake.adapters import open_storage
from singerlake.clock import random_id
from singerlake.storage.cloud import storage as cloud_storage
from singerlake.storage.drivers.azure.driver import LEAST_COPIED
from singerlake.storage.drivers.gcs.driver import GcsDriver
from singerlake.storage.drivers.gcs.upload import LEAST as LEAST_JOINED
from singerlake.storage.drivers.s3.upload import LEAST as LEAST_PART
from singerlake.storage.port import Part, Storage
from singerlake.storage.settings import AnySettings
from tests.fakes import FakeClock
from tests.servers.azurite import ACCOUNT
from tests.servers.gcs.server import GcsServer
from tests.servers.ports.door import Door, door_to
from tests.servers.s3 import ALWAYS, S3Server
from tests.storage.buckets import body, written

MIB = 1 << 20
IN_PARTS = {
    "s3": {"s3.upload.MULTIPART_THRESHOLD": LEAST_PART, "s3.upload.PART_SIZE": LEAST_PART},
    "azure": {"azure.driver.ONE_PUT": MIB, "azure.driver.BLOCK": MIB},
    "gcs": {"gcs.upload.LONG": MIB, "gcs.upload.BLOCK": MIB, "gcs.upload.SENT": MIB},
}
"""What has a driver take a few MiB for a large file."""
LARGE = {"s3": LEAST_PART + 256, "azure": LEAST_COPIED + 256, "gcs": 2 * LEAST_JOINED}
"""Bytes of an object that a server copies or joins with others."""
HOST_SETTINGS = {"s3": "s3_endpoint_url", "azure": "lake_root, azure_account", "gcs": "gcs_endpoint_url"}


@dataclass(frozen=True)
class Cloud:
    """A bucket of a server; ``settings`` takes the URL that reaches it."""

    name: str
    root: str
    url: str
    settings: Callable[..., AnySettings]
    clock: FakeClock

    def open(self, url: str, **settings: object) -> Storage:
        return open_storage(self.root, self.settings(endpoint_url=url, **settings), clock=self.clock)

    @property
    def large(self) -> bytes:
        return bytes(range(256)) * (LARGE[self.name] // 256)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(params=["s3", "azure", "gcs"])
def cloud(request: pytest.FixtureRequest, clock: FakeClock, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    name, bucket = request.param, f"b-{random_id()}"
    for constant, size in IN_PARTS[name].items():
        monkeypatch.setattr(f"singerlake.storage.drivers.{constant}", size)
    if name == "azure":
        server = request.getfixturevalue("azurite_session")
        server.create_container(bucket)

        def settings(endpoint_url: str, **more: object) -> AnySettings:
            given: AnySettings = server.settings(endpoint_url=f"{endpoint_url}/{ACCOUNT}", **more)
            return given

        return Cloud(name, f"az://{bucket}/lake", server.url, settings, clock)
    server = request.getfixturevalue(name)
    server.create_bucket(bucket)
    return Cloud(
        name, f"{'gs' if name == 'gcs' else name}://{bucket}/lake", server.endpoint_url, server.settings, clock
    )


@pytest.fixture
def door(cloud: Cloud) -> Iterator[Door]:
    with door_to(cloud.url) as door:
        yield door


@pytest.fixture
def storage(cloud: Cloud, door: Door) -> Storage:
    """Behind an open door; it has answered."""
    door.open()
    storage = cloud.open(door.endpoint_url)
    storage.put("a", b"1")
    return storage


def restart(door: Door, clock: FakeClock, seconds: float) -> None:
    """Shut the door now, and open it after so long on the clock."""
    door.shut()
    until = clock.seconds + seconds
    clock.on_sleep = lambda _: door.open() if clock.seconds >= until else None


@contextmanager
def no_host_names() -> Iterator[None]:
    """No host name is known until the block ends."""

    def no_such_host(*_: object, **__: object) -> object:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", no_such_host)
        yield


@pytest.fixture
def work(cloud: Cloud, storage: Storage, tmp_path: Path) -> dict[str, Callable[[], object]]:
    """What a driver does in requests of its own, and one request."""
    storage.put("large", cloud.large)
    (tmp_path / "spool").write_bytes(b"1")
    (tmp_path / "long").write_bytes(cloud.large * 2)
    return {
        "get": lambda: storage.get("a"),
        "open": lambda: storage.open("a").read(),
        "upload": lambda: storage.upload("new", tmp_path / "spool"),
        "upload in parts": lambda: storage.upload("new", tmp_path / "long"),
        "compose": lambda: storage.compose("new", [Part("large", 0, len(cloud.large)), b"end"]),
    }


CALLS = ["get", "open", "upload", "upload in parts", "compose"]


@pytest.mark.parametrize("call", CALLS)
def test_what_a_driver_does_waits_for_a_server_that_restarts(
    cloud: Cloud, storage: Storage, door: Door, work: dict[str, Callable[[], object]], call: str
) -> None:
    restart(door, cloud.clock, 40)
    work[call]()
    assert 40 <= cloud.clock.seconds < 50
    made = {"upload": b"1", "upload in parts": cloud.large * 2, "compose": cloud.large + b"end"}
    assert body(storage, "new") == made.get(call)


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_stays_down_is_given_up_after_the_patience(
    cloud: Cloud, door: Door, work: dict[str, Callable[[], object]], call: str
) -> None:
    door.shut()
    with pytest.raises(errors.StorageUnavailableError, match=r"answered before.*patience_seconds.*waited_seconds=6\d"):
        work[call]()
    assert 60 <= cloud.clock.seconds < 62, "what is looked up and cleaned up afterwards does not wait as long again"


@pytest.mark.parametrize("asked", [1 << 20, -1])
def test_a_stream_goes_on_at_the_byte_where_a_restart_cut_it(
    cloud: Cloud, storage: Storage, door: Door, monkeypatch: pytest.MonkeyPatch, asked: int
) -> None:
    monkeypatch.setattr("smart_open.s3.time", SimpleNamespace(sleep=cloud.clock.sleep))
    monkeypatch.setattr(cloud_storage, "RANGE_BYTES", 1 << 20)
    long = cloud.large * 4
    storage.put("long", long)
    with storage.open("long", 100) as stream:
        begun = stream.read(1000)
        restart(door, cloud.clock, 40)
        rest = b"".join(iter(lambda: stream.read(asked), b""))
    assert begun + rest == long[100:]
    assert cloud.clock.seconds >= 40


@pytest.mark.usefixtures("first_contact")
def test_a_port_where_nobody_ever_answered_is_given_up_sooner_and_named(cloud: Cloud, door: Door) -> None:
    named = rf"never answered.*port of {cloud.name}_endpoint_url.*refused"
    with pytest.raises(errors.StorageUnavailableError, match=named):
        cloud.open(door.endpoint_url).get("a")
    assert 15 <= cloud.clock.seconds < 16


@pytest.mark.usefixtures("first_contact")
def test_a_server_that_is_still_starting_when_a_run_begins_is_waited_for(cloud: Cloud, door: Door) -> None:
    restart(door, cloud.clock, 12)
    written(cloud.open(door.endpoint_url).put("a", b"1"))


def test_a_host_name_that_nobody_knows_is_an_error_of_the_settings_at_once(cloud: Cloud) -> None:
    named = f"host name of storage is not known; check {HOST_SETTINGS[cloud.name]}"
    with no_host_names(), pytest.raises(errors.SettingError, match=named):
        cloud.open("http://storage.invalid:9000").get("a")
    assert cloud.clock.seconds < 1


def test_a_host_name_that_was_known_is_waited_for(cloud: Cloud, storage: Storage, door: Door) -> None:
    door.shut()
    with no_host_names(), pytest.raises(errors.StorageUnavailableError, match="answered before"):
        storage.get("a")
    assert cloud.clock.seconds >= 60


def test_a_port_that_speaks_no_tls_is_an_error_at_once(cloud: Cloud) -> None:
    with pytest.raises(errors.StorageUnavailableError, match="cannot be reached; check host and port"):
        cloud.open(cloud.url.replace("http:", "https:")).get("a")
    assert cloud.clock.seconds == 0


@pytest.mark.usefixtures("storage")
def test_the_patience_is_a_setting(cloud: Cloud, door: Door) -> None:
    hasty = cloud.open(door.endpoint_url, patience_seconds=7)
    door.shut()
    with pytest.raises(errors.StorageUnavailableError, match="waited_seconds=7"):
        hasty.get("a")
    with pytest.raises(errors.SettingError, match="patience_seconds"):
        cloud.settings(endpoint_url=cloud.url, patience_seconds=-1)


@pytest.mark.parametrize("cloud", ["s3"], indirect=True)
def test_a_storage_that_fails_every_write_and_answers_reads_says_why(
    s3: S3Server, storage: Storage, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[float] = []
    clock.on_sleep = lambda _: told.append(clock.seconds) if caplog.records and not told else None
    s3.fail("PUT,POST,DELETE", status=500, code="InternalError", times=ALWAYS)
    with pytest.raises(errors.StorageUnavailableError, match=r"fails every write.*code='InternalError', reason='.+'"):
        storage.capabilities()
    assert told[0] < 3
    said = caplog.records[0].getMessage()
    assert said.startswith("waiting for storage for 1 s now, since it answers with an error: Int")
    assert clock.seconds < 70
    with pytest.raises(errors.UnknownOutcomeError, match=r"code='InternalError', reason='storage could"):
        storage.put("new", b"1", if_absent=True)
    assert clock.seconds < 75, "reads between two writes do not make the second wait as long again"


@pytest.mark.parametrize("cloud", ["s3"], indirect=True)
def test_a_stream_that_breaks_again_and_again_is_read_whole(
    s3: S3Server, cloud: Cloud, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("smart_open.s3.time", SimpleNamespace(sleep=cloud.clock.sleep))
    storage.put("long", cloud.large)
    with storage.open("long") as stream:
        begun = stream.read(10)
        s3.truncate(times=12, key_contains="long")
        assert begun + stream.read() == cloud.large


def test_connections_to_google_cloud_storage_are_kept(gcs: GcsServer) -> None:
    driver = GcsDriver(gcs.create_bucket(f"bucket-{random_id()}"), "lake", gcs.settings())
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

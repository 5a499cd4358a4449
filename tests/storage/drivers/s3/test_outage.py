"""S3 that restarts, that is down for long, and that never was there."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from singerlake import errors
from singerlake.adapters import s3_storage
from singerlake.clock import random_id
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.s3 import upload as s3_upload
from singerlake.storage.drivers.s3.upload import LEAST
from singerlake.storage.port import Part, Storage
from tests.fakes import FakeClock
from tests.servers.ports.door import Door, door_to
from tests.servers.s3 import ALWAYS, S3Server
from tests.storage.buckets import body, written

LARGE = bytes(range(256)) * (LEAST // 256 + 1)
CALLS: dict[str, Callable[[Storage, Path], object]] = {
    "get": lambda storage, path: storage.get("a"),
    "upload": lambda storage, path: storage.upload("new", path),
    "compose": lambda storage, path: storage.compose("new", [Part("large", 0, len(LARGE)), b"end"]),
    "open": lambda storage, path: storage.open("a").read(),
}


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def door(s3: S3Server) -> Iterator[Door]:
    with door_to(s3.endpoint_url) as door:
        yield door


@pytest.fixture
def storage(s3: S3Server, door: Door, clock: FakeClock) -> CloudStorage:
    """Behind an open door, with something in it; it has answered."""
    door.open()
    bucket = s3.create_bucket(f"bucket-{random_id()}")
    storage = s3_storage(bucket, "lake", s3.settings(endpoint_url=door.endpoint_url), clock=clock, ids=random_id)
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


def test_a_file_in_parts_goes_up_over_a_restart(
    storage: CloudStorage, door: Door, clock: FakeClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_upload, "MULTIPART_THRESHOLD", LEAST)
    monkeypatch.setattr(s3_upload, "PART_SIZE", LEAST)
    (tmp_path / "spool").write_bytes(LARGE * 2)
    restart(door, clock, 40)
    assert storage.upload("new", tmp_path / "spool") == 2 * len(LARGE)
    assert body(storage, "new") == LARGE * 2


@pytest.mark.parametrize("call", CALLS)
def test_a_server_that_stays_down_is_given_up_after_the_patience(
    storage: CloudStorage, door: Door, clock: FakeClock, tmp_path: Path, call: str
) -> None:
    (tmp_path / "spool").write_bytes(b"1")
    door.shut()
    with pytest.raises(errors.StorageUnavailableError, match=r"answered before.*patience_seconds.*waited_seconds=6\d"):
        CALLS[call](storage, tmp_path / "spool")
    assert 60 <= clock.seconds < 62, "what is looked up and cleaned up afterwards does not wait as long again"


def test_a_storage_that_fails_every_write_and_answers_reads_says_why(
    s3: S3Server, storage: CloudStorage, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    told: list[float] = []
    clock.on_sleep = lambda _: told.append(clock.seconds) if caplog.records and not told else None
    s3.fail("PUT,POST,DELETE", status=500, code="InternalError", times=ALWAYS)
    with pytest.raises(errors.StorageUnavailableError, match=r"fails every write.*code='InternalError', reason='.+'"):
        storage.capabilities()
    assert told[0] < 3
    assert (
        caplog.records[0]
        .getMessage()
        .startswith("waiting for storage for 1 s now, since it answers with an error: Int")
    )
    assert clock.seconds < 70
    with pytest.raises(errors.UnknownOutcomeError, match=r"code='InternalError', reason='storage could"):
        storage.put("new", b"1", if_absent=True)
    assert clock.seconds < 75, "reads between two writes do not make the second wait as long again"


def test_threads_wait_together_and_give_up_together(storage: CloudStorage, door: Door, clock: FakeClock) -> None:
    door.shut()
    told: list[str] = []

    def ask() -> None:
        with pytest.raises(errors.StorageUnavailableError) as caught:
            storage.get("a")
        told.append(str(caught.value))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(told) == 4


@pytest.mark.usefixtures("first_contact")
def test_a_port_where_nobody_ever_answered_is_given_up_sooner_and_named(
    s3: S3Server, clock: FakeClock, door: Door
) -> None:
    settings = s3.settings(endpoint_url=door.endpoint_url)
    with pytest.raises(errors.StorageUnavailableError, match=r"never answered.*port of s3_endpoint_url.*refused"):
        s3_storage("bucket", "", settings, clock=clock, ids=random_id).get("a")
    assert 15 <= clock.seconds < 16


def test_a_server_that_is_still_starting_when_a_run_begins_is_waited_for(
    s3: S3Server, clock: FakeClock, door: Door
) -> None:
    bucket = s3.create_bucket(f"bucket-{random_id()}")
    settings = s3.settings(endpoint_url=door.endpoint_url)
    restart(door, clock, 12)
    written(s3_storage(bucket, "", settings, clock=clock, ids=random_id).put("a", b"1"))


def no_such_host(*_: object, **__: object) -> object:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def test_a_host_name_that_nobody_knows_is_an_error_of_the_settings_at_once(
    s3: S3Server, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "getaddrinfo", no_such_host)
    settings = s3.settings(endpoint_url="http://storage.invalid:9000")
    with pytest.raises(errors.SettingError, match=r"host name of storage is not known; check s3_endpoint_url"):
        s3_storage("bucket", "", settings, clock=clock, ids=random_id).get("a")
    assert clock.seconds < 1


def test_a_host_name_that_was_known_is_waited_for(
    storage: CloudStorage, clock: FakeClock, door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    door.shut()
    monkeypatch.setattr(socket, "getaddrinfo", no_such_host)
    with pytest.raises(errors.StorageUnavailableError, match="answered before"):
        storage.get("a")
    assert clock.seconds >= 60


def test_the_patience_is_a_setting(s3: S3Server, storage: CloudStorage, door: Door, clock: FakeClock) -> None:
    hasty = s3_storage(
        "bucket", "", s3.settings(endpoint_url=door.endpoint_url, patience_seconds=7), clock=clock, ids=random_id
    )
    door.shut()
    with pytest.raises(errors.StorageUnavailableError, match="waited_seconds=7"):
        hasty.get("a")
    with pytest.raises(errors.SettingError, match="patience_seconds"):
        s3.settings(patience_seconds=-1)


@pytest.fixture
def smart_open_sleeps(monkeypatch: pytest.MonkeyPatch, clock: FakeClock) -> None:
    monkeypatch.setattr("smart_open.s3.time", SimpleNamespace(sleep=clock.sleep))


@pytest.mark.usefixtures("smart_open_sleeps")
@pytest.mark.parametrize("asked", [1 << 20, -1])
def test_a_stream_goes_on_at_the_byte_where_a_restart_cut_it(
    storage: CloudStorage, door: Door, clock: FakeClock, asked: int
) -> None:
    storage.put("long", LARGE * 4)
    with storage.open("long", 100) as stream:
        begun = stream.read(1000)
        restart(door, clock, 40)
        rest = b"".join(iter(lambda: stream.read(asked), b""))
    assert begun + rest == (LARGE * 4)[100:]
    assert clock.seconds >= 40


@pytest.mark.usefixtures("smart_open_sleeps")
def test_a_stream_that_breaks_again_and_again_is_read_whole(s3: S3Server, storage: CloudStorage) -> None:
    storage.put("long", LARGE)
    with storage.open("long") as stream:
        begun = stream.read(10)
        s3.truncate(times=12, key_contains="long")
        assert begun + stream.read() == LARGE

"""What a hold or a policy keeps: upkeep names the key and what to do, harms nothing, and goes on once it may.

Azurite knows neither legal holds nor immutability policies, so the proxy in front of it gives the answers of Azure: 409
BlobImmutableDueToPolicy to each request that would replace or delete what is held
(https://learn.microsoft.com/azure/storage/blobs/immutable-storage-overview). The proxy does not look into a batch, so
it refuses a whole one. The Google server keeps objects by itself, as https://cloud.google.com/storage/docs/bucket-lock
and https://cloud.google.com/storage/docs/object-holds say.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from singerlake.cli.output import counted
from tests.servers.azurite import ACCOUNT, ACCOUNT_KEY, azurite
from tests.servers.fault_proxy.proxy import ALWAYS, http_fault_proxy
from tests.servers.gcs.server import gcs_server
from tests.storage.cloud.commands import STREAM, Cloud, Commands, record

pytestmark = pytest.mark.thorough

PREFIX = f"raw/t/{STREAM}/"


@dataclass(frozen=True)
class Keeping:
    """A cloud in which ``hold`` keeps objects of one name from here on, ``hold_all`` all objects, until ``release``.
    ``says`` begins the errors of either, ``does`` is the next step that they name."""

    cloud: Cloud
    hold: Callable[[str], None]
    hold_all: Callable[[], None]
    release: Callable[[], None]
    says: tuple[str, str]
    does: tuple[str, str]


@pytest.fixture(scope="module")
def keeping() -> Iterator[dict[str, Keeping]]:
    with ExitStack() as running:
        azure, google = running.enter_context(azurite()), running.enter_context(gcs_server())
        proxy = running.enter_context(http_fault_proxy(azure.url))
        azure.create_container("lake")
        google.create_bucket("lake")

        def refuse(*requests: str) -> None:
            for request in requests:
                proxy.error(request, status=409, code="BlobImmutableDueToPolicy", times=ALWAYS)

        endpoint = f"{proxy.url}/{ACCOUNT}"
        of_azure, of_google = azure.settings(), google.settings()
        yield {
            "az": Keeping(
                Cloud("az", {"azure_endpoint_url": endpoint, "azure_account_key": ACCOUNT_KEY}, of_azure),
                lambda name: refuse("^POST .*comp=batch", f"^(DELETE|PUT) .*{re.escape(name)}"),
                lambda: refuse("^POST .*comp=batch", "^DELETE ", r"^PUT .*/manifest\.json$"),
                proxy.calm,
                ("a legal hold or an immutability policy protects the object",) * 2,
                ("remove the hold or the policy from the container, or wait until it ends",) * 2,
            ),
            "gs": Keeping(
                Cloud("gs", {"gcs_endpoint_url": google.endpoint_url}, of_google),
                lambda name: google.keep("lake", "hold", name_contains=name),
                lambda: google.keep("lake", "retention"),
                lambda: google.keep("lake", ""),
                ("a hold keeps the object", "a retention policy keeps the object"),
                ("release the hold", "wait until"),
            ),
        }


RECORDS = [record(number) for number in range(3)]
GC = ("singerlake", "gc", "--delete", "--grace", "0s")


def captured(cloud: Cloud, store: str, folder: Path) -> Commands:
    """A lake with three files of a record each."""
    commands = Commands(cloud, store, folder)
    for each in RECORDS:
        commands.capture([each])
    return commands


def with_garbage(cloud: Cloud, store: str, folder: Path) -> tuple[Commands, list[str]]:
    """A lake with three files that were replaced by one, as a first collection has noted, and their keys."""
    commands = captured(cloud, store, folder)
    old = data_files(commands)
    commands.run("singerlake", "vacuum", "--yes")
    commands.run(*GC)
    assert len(old) == 3
    assert set(old) < set(data_files(commands))
    return commands, old


def data_files(commands: Commands) -> list[str]:
    return [entry.key for entry in commands.storage.list(PREFIX) if entry.key.endswith(".singer.gz")]


def manifest(commands: Commands) -> bytes:
    stored = commands.storage.get(f"{PREFIX}manifest.json")
    assert stored is not None
    return stored.body


def check(commands: Commands, files: int) -> None:
    """The lake is sound, has so many files that are listed, and all records."""
    sound = commands.run("singerlake", "verify", "--ignore", "unlisted")
    assert sound.startswith(f"sound: 1 stream, {counted(files, 'file')}, 3 messages")
    assert commands.replayed() == RECORDS


@pytest.mark.crossed("scheme", "store")
@pytest.mark.parametrize("store", ["lockfile", "log"])
@pytest.mark.parametrize("scheme", ["az", "gs"])
def test_one_object_that_is_held_stays_until_it_is_released(
    keeping: dict[str, Keeping], tmp_path: Path, scheme: str, store: str
) -> None:
    held = keeping[scheme]
    commands, old = with_garbage(held.cloud, store, tmp_path)
    held.hold(old[1].rpartition("/")[2])
    try:
        for _ in range(2):
            code, said, log = commands.outcome(*GC)
            assert (code, log) == (2, "")
            assert said.startswith(f"t/{STREAM}: not collected: {held.says[0]}; {held.does[0]}")
            assert f"key='{old[1]}'" in said
            assert old[1] in data_files(commands)
            check(commands, 1)
    finally:
        held.release()
    commands.run(*GC)
    assert not set(old) & set(data_files(commands))
    check(commands, 1)


@pytest.mark.parametrize("scheme", ["az", "gs"])
def test_where_all_is_held_nothing_is_collected_before_it_is_released(
    keeping: dict[str, Keeping], tmp_path: Path, scheme: str
) -> None:
    held = keeping[scheme]
    commands, old = with_garbage(held.cloud, "lockfile", tmp_path)
    before = manifest(commands)
    held.hold_all()
    try:
        code, said, log = commands.outcome(*GC)
        assert (code, log) == (2, "")
        assert said.startswith(f"t/{STREAM}: not collected: {held.says[1]}; {held.does[1]}")
        assert re.search(r"\(key='[^']+'", said)
        assert set(old) < set(data_files(commands))
        assert manifest(commands) == before
        check(commands, 1)
    finally:
        held.release()
    commands.run(*GC)
    assert not set(old) & set(data_files(commands))
    check(commands, 1)


@pytest.mark.parametrize("scheme", ["az", "gs"])
def test_where_all_is_held_nothing_is_joined_before_it_is_released(
    keeping: dict[str, Keeping], tmp_path: Path, scheme: str
) -> None:
    held = keeping[scheme]
    commands = captured(held.cloud, "lockfile", tmp_path)
    old, before = data_files(commands), manifest(commands)
    held.hold_all()
    try:
        code, said, log = commands.outcome("singerlake", "vacuum", "--yes")
        assert (code, said) == (2, "")
        assert log.startswith(f"error: {held.says[1]}; {held.does[1]}")
        assert re.search(r"\(key='[^']+'", log)
        assert set(old) <= set(data_files(commands))
        assert manifest(commands) == before
        check(commands, 3)
    finally:
        held.release()
    commands.run("singerlake", "vacuum", "--yes")
    check(commands, 1)

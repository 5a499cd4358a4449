"""Files that are sent in blocks, and objects made of others: by the server where it copies, else fetched and sent."""

from __future__ import annotations

import io
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError
from hypothesis import given
from hypothesis import strategies as st

from singerlake import errors
from singerlake.clock import random_id
from singerlake.storage.cloud.storage import CloudStorage
from singerlake.storage.drivers.azure import driver as azure_driver
from singerlake.storage.drivers.azure.driver import LEAST_COPIED, MOST_BLOCKS, AzureDriver, Source, block_length
from singerlake.storage.port import Part
from singerlake.storage.streams import FilePart
from tests.servers.azurite import ACCOUNT_KEY, Azurite
from tests.servers.fault_proxy.proxy import ALWAYS, FaultProxy
from tests.storage.buckets import PatientlessClock, body
from tests.storage.drivers.azure.opening import Make, opened

LARGE, SMALL = bytes(range(256)) * 8192 + b"more", b"s" * 1000
ODD = "50% off + ü/é~\\.'&?#"
STAGED = re.compile(r"^PUT .*comp=block&.*blockid=([^&]+)")


def refusal(status: int, code: str) -> HttpResponseError:
    """What the library raises for an answer."""
    response: Any = SimpleNamespace(
        status_code=status,
        reason="",
        headers={"x-ms-error-code": code} if code else {},
        singerlake_of_storage=True,
        text=lambda *_: "",
    )
    return HttpResponseError("no", response=response)


class Copier:
    """Copies blocks as Azure does, which Azurite does not: it fetches the source by the URL that it is given.
    ``refusals`` are answers that come first."""

    def __init__(self, driver: AzureDriver) -> None:
        self.refusals: list[HttpResponseError] = []
        self.copied: list[tuple[int, int]] = []
        self._blob = driver._blob
        driver._blob = self.blob  # type: ignore[method-assign]

    def blob(self, key: str) -> Any:
        blob = self._blob(key)

        def copy(name: str, url: str, *, source_offset: int, source_length: int, source_authorization: None) -> None:
            if self.refusals:
                raise self.refusals.pop()
            end = source_offset + source_length - 1
            request = urllib.request.Request(url, headers={"Range": f"bytes={source_offset}-{end}"})
            with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30) as reply:
                data = reply.read()
            blob.stage_block(name, data, length=len(data))
            self.copied.append((source_offset, source_length))

        blob.stage_block_from_url = copy
        return blob


@pytest.fixture
def driver(azurite_session: Azurite, container: str) -> AzureDriver:
    return AzureDriver(container, "a lake/%41", azurite_session.settings())


@pytest.fixture
def copier(driver: AzureDriver) -> Copier:
    return Copier(driver)


@pytest.fixture
def shelf(driver: AzureDriver, clock: PatientlessClock) -> CloudStorage:
    """Objects to make others of."""
    storage = opened(driver, clock)
    for key in ("large", ODD):
        storage.put(key, LARGE)
    storage.put("small", SMALL)
    return storage


def of(key: str) -> Part:
    return Part(key, 0, len(SMALL if key == "small" else LARGE))


class TestUploads:
    @pytest.fixture(autouse=True)
    def small_blocks(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(azure_driver, "BLOCK", 1 << 18)
        monkeypatch.setattr("singerlake.storage.drivers.azure.driver.ONE_PUT", 1 << 18)

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        (tmp_path / "spool").write_bytes(LARGE)
        return tmp_path / "spool"

    @pytest.mark.parametrize("fault", ["none", "block", "block lost", "end", "end lost", "cut"])
    def test_a_large_file_goes_up_in_blocks_that_arrive_whole(
        self, proxy: FaultProxy, storage: CloudStorage, path: Path, fault: str
    ) -> None:
        if fault == "cut":
            proxy.cut_request("comp=block&", times=3)
        elif fault != "none":
            proxy.drop(
                "comp=blocklist" if "end" in fault else "comp=block&",
                after="lost" in fault,
                times=2 if "b" in fault else 1,
            )
        assert storage.upload("data", path) == len(LARGE)
        assert body(storage, "data") == LARGE
        names = [found[1] for line in proxy.seen() if (found := STAGED.search(line))]
        assert len(set(names)) == 9
        assert len({len(name) for name in names}) == 1

    def test_a_small_one_is_one_request(self, proxy: FaultProxy, storage: CloudStorage, tmp_path: Path) -> None:
        (tmp_path / "spool").write_bytes(SMALL)
        storage.upload("data", tmp_path / "spool")
        assert [line.partition(" ")[0] for line in proxy.seen()] == ["PUT", "HEAD"]

    @pytest.mark.parametrize("what", ["comp=block&", "comp=blocklist"])
    def test_what_cannot_be_sent_leaves_nothing(
        self, proxy: FaultProxy, storage: CloudStorage, path: Path, what: str
    ) -> None:
        proxy.error(what, status=403, code="AuthorizationFailure", times=ALWAYS)
        with pytest.raises(errors.AccessDeniedError, match="key='data'"):
            storage.upload("data", path)
        assert storage.head("data") is None
        assert list(storage.list("")) == []

    def test_blocks_that_storage_lost_are_to_be_sent_again(
        self, proxy: FaultProxy, storage: CloudStorage, path: Path
    ) -> None:
        proxy.error("comp=blocklist", status=400, code="InvalidBlockList")
        with pytest.raises(errors.StorageUnavailableError, match=r"lost the blocks.*run again"):
            storage.upload("data", path)
        assert storage.upload("data", path) == len(LARGE)


@given(st.integers(1, 1 << 43))
def test_no_file_has_more_blocks_than_azure_takes(size: int) -> None:
    length = block_length(size)
    assert length >= azure_driver.BLOCK
    assert -(-size // length) <= MOST_BLOCKS


@given(
    st.binary(max_size=60), st.integers(0, 40), st.integers(0, 40), st.lists(st.integers(-1, 30)), st.integers(0, 50)
)
def test_a_part_reads_as_a_file_of_its_own(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, start: int, length: int, reads: list[int], back: int
) -> None:
    path = tmp_path_factory.getbasetemp() / f"part-{random_id()}"
    path.write_bytes(data)
    with FilePart(path, start, start + len(data[start : start + length])) as part:
        expected = io.BytesIO(data[start : start + length])
        for size in reads:
            assert part.read(size) == expected.read(size)
            assert part.tell() == expected.tell()
        assert part.seek(back) == expected.seek(back)
        assert part.read() == expected.read()
        assert part.seek(0, io.SEEK_END) == len(part)
    path.unlink()


class TestComposing:
    def test_the_server_copies_what_is_large_enough(self, copier: Copier, shelf: CloudStorage) -> None:
        shelf.compose("made", [of("large"), of(ODD), Part("large", 7, LEAST_COPIED + 7), b"end", of("small")])
        assert body(shelf, "made") == LARGE * 2 + LARGE[7 : LEAST_COPIED + 7] + b"end" + SMALL
        assert sorted(copier.copied) == [(0, len(LARGE)), (0, len(LARGE)), (7, LEAST_COPIED)]

    @pytest.mark.parametrize(
        ("status", "code"),
        [
            (501, "APINotImplemented"),
            (403, "CannotVerifyCopySource"),
            (404, "CannotVerifyCopySource"),
            (503, "CannotVerifyCopySource"),
            (400, ""),
            (403, ""),
        ],
    )
    def test_a_server_that_does_not_copy_is_sent_all(
        self, copier: Copier, shelf: CloudStorage, status: int, code: str
    ) -> None:
        copier.refusals.append(refusal(status, code))
        shelf.compose("made", [of("large"), of("small"), of("large")])
        assert body(shelf, "made") == LARGE + SMALL + LARGE

    @pytest.mark.parametrize(
        ("status", "code"), [(503, "ServerBusy"), (500, "OperationTimedOut"), (409, "CopyInProgress"), (429, "")]
    )
    def test_a_copy_that_may_succeed_later_is_asked_for_again(
        self, copier: Copier, shelf: CloudStorage, clock: PatientlessClock, status: int, code: str
    ) -> None:
        copier.refusals += [refusal(status, code)] * 5
        shelf.compose("made", [of("large"), of("small"), of("large")])
        assert body(shelf, "made") == LARGE + SMALL + LARGE
        assert (len(copier.copied), len(clock.slept)) == (2, 5)

    @pytest.mark.parametrize(
        ("part", "said"),
        [
            (Part("absent", 0, 2 << 20), "no such object.*key='absent'"),
            (Part("large", 0, len(LARGE) + 1), "ends before.*key='large'"),
            (Part("large", 5 << 20, 7 << 20), "ends before.*key='large'"),
            (Part("absent", 0, 1), "no such object.*key='absent'"),
            (Part("small", 0, 1001), "ends before.*key='small'"),
        ],
    )
    def test_a_source_that_is_not_there_is_named_and_nothing_is_made(
        self, copier: Copier, shelf: CloudStorage, part: Part, said: str
    ) -> None:
        with pytest.raises(errors.MissingFileError, match=said):
            shelf.compose("made", [of("large"), part, of("small")])
        assert shelf.head("made") is None

    def test_many_small_objects_share_blocks(self, proxy: FaultProxy, storage: CloudStorage) -> None:
        for number in range(10):
            storage.put(f"s/{number}", SMALL)
        proxy.seen()
        storage.compose("made", [Part(f"s/{number}", 0, 1000) for number in range(10)])
        assert [line.partition(" ")[0] for line in proxy.seen()] == [*["GET"] * 10, "PUT", "HEAD"]
        assert body(storage, "made") == SMALL * 10

    def test_an_end_whose_reply_is_lost_is_an_end(self, proxy: FaultProxy, storage: CloudStorage) -> None:
        storage.put("large", LARGE)
        lost = proxy.drop("comp=blocklist", after=True)
        more = bytes(azure_driver.BLOCK)
        storage.compose("made", [of("large"), more])
        assert lost.hits == 1
        assert body(storage, "made") == LARGE + more

    def test_two_tries_for_one_key_do_not_mix(self, copier: Copier, shelf: CloudStorage) -> None:
        copier.refusals.append(refusal(412, "LeaseIdMissing"))
        shelf.compose("made", [of("large"), of("small")])
        shelf.compose("made", [of("small"), of("large"), of("large")])
        assert body(shelf, "made") == SMALL + LARGE * 2


class TestSources:
    def read(self, source: Source) -> bytes:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(source.url, timeout=30) as reply:
            return bytes(reply.read())

    def test_a_key_signs_one_object_to_be_read_for_a_while(self, driver: AzureDriver, shelf: CloudStorage) -> None:
        source = driver._source(ODD)
        assert self.read(source) == LARGE
        assert "sp=r&" in source.url
        assert ACCOUNT_KEY not in source.url

    def test_a_sas_token_is_passed_on(self, azurite_session: Azurite, container: str, shelf: CloudStorage) -> None:
        given = azurite_session.sas(container, "racwdl")
        driver = AzureDriver(container, "a lake/%41", azurite_session.settings(account_key=None, sas_token=f"?{given}"))
        assert self.read(driver._source(ODD)) == LARGE

    def test_a_token_is_shown_to_the_server_that_copies(self, driver: AzureDriver) -> None:
        client = driver._client
        driver._connected = type(client)(client.container, lambda: "t0ken")
        source = driver._source("large")
        assert source.authorization == "Bearer t0ken"
        assert "?" not in source.url


def test_a_sas_token_is_enough_for_all(azurite_session: Azurite, container: str, make: Make, tmp_path: Path) -> None:
    storage = make(account_key=None, sas_token=azurite_session.sas(container, "racwdl"))
    assert storage.capabilities().conditional_put
    (tmp_path / "spool").write_bytes(SMALL)
    calls: list[Callable[[], object]] = [
        lambda: storage.upload("a", tmp_path / "spool"),
        lambda: storage.compose("b", [Part("a", 0, 1000), b"1"]),
        lambda: storage.delete_all(["a", "b"]),
    ]
    for call in calls:
        call()
    assert list(storage.list("")) == []


def test_a_sas_token_that_may_only_read_says_what_it_lacks(
    azurite_session: Azurite, container: str, make: Make
) -> None:
    make().put("a", b"1")
    storage = make(account_key=None, sas_token=azurite_session.sas(container, "rl"))
    assert body(storage, "a") == b"1"
    assert [entry.key for entry in storage.list("")] == ["a"]
    for call in (lambda: storage.put("b", b""), lambda: storage.delete("a"), lambda: storage.delete_all(["a"])):
        with pytest.raises(errors.AccessDeniedError, match="racwdl"):
            call()

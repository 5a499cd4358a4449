"""Files that go up to Google Cloud Storage in one request or in blocks, and replies that are lost on the way."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from singerlake import errors
from singerlake.storage.cloud.storage import CloudStorage
from tests.servers.gcs.server import ALWAYS, GcsServer
from tests.storage.buckets import body

QUANTUM = 256 << 10
DATA = bytes(range(256)) * (5 * QUANTUM // 512)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of two blocks and a half."""
    (tmp_path / "file").write_bytes(DATA)
    return tmp_path / "file"


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singerlake.storage.drivers.gcs.driver.LONG", QUANTUM)
    monkeypatch.setattr("singerlake.storage.drivers.gcs.driver.BLOCK", QUANTUM)


def test_importing_the_adapter_imports_no_library() -> None:
    names = "('google', 'requests', 'google_crc32c')"
    script = (
        "import sys, singerlake.storage.drivers.gcs.driver as m; d = m.GcsDriver('bucket', 'lake', m.GcsSettings());"
        f"d.url, d.place, d.identity, d.errors; print([n for n in {names} if n in sys.modules])"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


class TestInOneRequest:
    def test_a_file_is_one_request_and_a_look(self, gcs: GcsServer, storage: CloudStorage, path: Path) -> None:
        gcs.requests()
        assert storage.upload("a", path) == len(DATA)
        assert gcs.operations() == ["insert", "look"]
        assert body(storage, "a") == DATA

    def test_a_file_whose_reply_was_lost_is_not_sent_twice_in_vain(
        self, gcs: GcsServer, storage: CloudStorage, path: Path
    ) -> None:
        gcs.drop_reply("insert")
        gcs.requests()
        assert storage.upload("a", path) == len(DATA)
        assert gcs.operations() == ["insert", "insert", "look", "look"]

    @pytest.mark.parametrize("theirs", [b"other", DATA[::-1]])
    def test_what_is_there_and_other_is_replaced(
        self, gcs: GcsServer, storage: CloudStorage, path: Path, theirs: bytes
    ) -> None:
        storage.put("a", theirs)
        assert storage.upload("a", path) == len(DATA)
        assert body(storage, "a") == DATA

    def test_bytes_that_change_on_their_way_are_sent_again(
        self, gcs: GcsServer, storage: CloudStorage, path: Path
    ) -> None:
        said = 'Provided CRC32C "x" doesn\'t match calculated CRC32C "y".'
        gcs.fail("insert", status=400, reason="invalid", message=said, times=2)
        assert storage.upload("a", path) == len(DATA)
        gcs.fail("insert", status=400, reason="invalid", message=said, times=ALWAYS)
        with pytest.raises(errors.StorageUnavailableError, match="bytes changed on their way"):
            storage.upload("b", path)

    def test_bytes_that_do_not_fit_their_checksum_are_not_stored(
        self, storage: CloudStorage, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The server of these tests holds the checksum that is sent against the bytes, as Google's does."""
        monkeypatch.setattr("singerlake.storage.drivers.gcs.driver.crc32c", lambda _: "AAAAAA==")
        monkeypatch.setattr("singerlake.storage.drivers.gcs.bucket.crc32c", lambda _: "AAAAAA==")
        for call in (lambda: storage.put("a", b"123"), lambda: storage.upload("a", path)):
            with pytest.raises(errors.StorageUnavailableError, match="bytes changed"):
                call()
        assert storage.head("a") is None


@pytest.mark.usefixtures("blocks")
class TestInBlocks:
    def test_a_file_appears_with_its_last_block(self, gcs: GcsServer, storage: CloudStorage, path: Path) -> None:
        gcs.requests()
        assert storage.upload("a", path) == len(DATA)
        seen = gcs.requests()
        assert [request.operation for request in seen] == ["begin", "block", "block", "block", "look"]
        assert [request.size for request in seen][1:4] == [QUANTUM, QUANTUM, QUANTUM // 2]
        assert body(storage, "a") == DATA

    @pytest.mark.parametrize("size", [QUANTUM, QUANTUM + 1, 2 * QUANTUM - 1, 2 * QUANTUM])
    def test_any_size_goes_up(self, storage: CloudStorage, tmp_path: Path, size: int) -> None:
        (tmp_path / "file").write_bytes(DATA[:size])
        assert storage.upload("a", tmp_path / "file") == size
        assert body(storage, "a") == DATA[:size]

    @pytest.mark.parametrize("lost", ["begin", "block"])
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_what_was_lost_alone_is_sent_again(
        self, gcs: GcsServer, storage: CloudStorage, path: Path, lost: str, when: str
    ) -> None:
        if when == "before":
            gcs.drop_request(lost, times=2)
        else:
            gcs.drop_reply(lost, times=2)
        gcs.requests()
        assert storage.upload("a", path) == len(DATA)
        sent = sum(request.size for request in gcs.requests() if request.operation == "block")
        assert sent <= len(DATA) + (QUANTUM if lost == "block" else 0)
        assert body(storage, "a") == DATA

    def test_a_last_reply_that_was_lost_is_asked_for(self, gcs: GcsServer, storage: CloudStorage, path: Path) -> None:
        gcs.fail("block", status=503, reason="backendError", after=True, times=3)
        assert storage.upload("a", path) == len(DATA)
        assert body(storage, "a") == DATA

    def test_a_block_that_was_stored_in_part_goes_on_there(
        self, gcs: GcsServer, storage: CloudStorage, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("singerlake.storage.drivers.gcs.driver.BLOCK", 2 * QUANTUM)
        gcs.store_part_of_a_block()
        gcs.requests()
        assert storage.upload("a", path) == len(DATA)
        sizes = [request.size for request in gcs.requests() if request.operation == "block"]
        assert sizes == [2 * QUANTUM, 0, QUANTUM, QUANTUM // 2]
        assert body(storage, "a") == DATA

    @pytest.mark.parametrize("status", [404, 410])
    def test_an_upload_that_storage_ended_is_an_error(
        self, gcs: GcsServer, storage: CloudStorage, path: Path, status: int
    ) -> None:
        gcs.fail("block", status=status, reason="notFound", times=ALWAYS)
        with pytest.raises(errors.StorageUnavailableError, match="storage ended an upload; run again"):
            storage.upload("a", path)
        assert storage.get("a") is None

    def test_storage_that_stays_busy_has_nothing_at_the_key(
        self, gcs: GcsServer, storage: CloudStorage, path: Path
    ) -> None:
        gcs.drop_request("block", times=ALWAYS)
        with pytest.raises(errors.StorageUnavailableError, match="waited_seconds"):
            storage.upload("a", path)
        assert storage.head("a") is None

    @pytest.mark.parametrize("theirs", [b"other", DATA[::-1]])
    def test_what_is_there_and_other_is_replaced(self, storage: CloudStorage, path: Path, theirs: bytes) -> None:
        storage.put("a", theirs)
        assert storage.upload("a", path) == len(DATA)
        assert body(storage, "a") == DATA

    def test_a_wrong_answer_to_the_beginning_is_no_storage(
        self, gcs: GcsServer, storage: CloudStorage, path: Path
    ) -> None:
        gcs.answer_with_a_page("begin")
        with pytest.raises(errors.SettingError, match="not Google Cloud Storage"):
            storage.upload("a", path)

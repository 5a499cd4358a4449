"""A run whose files take their time: STATE waits, signals end it, and nothing that was told is lost."""

from __future__ import annotations

import json
import signal
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from singerlake.attached.sources import local
from singerlake.cli.main import main
from singerlake.errors import AccessDeniedError, CommitRefusedError, StorageFullError, UnreadableSourceError
from singerlake.format import layout
from singerlake.storage.local.storage import LocalStorage
from target_singerlake.files.growing import GrowingFile
from tests.servers.web.https import HttpsServer, Page, page
from tests.target.attached.files import START, is_sound, objects, person, photo, row, rows, settings
from tests.target.process.test_process import SOON, send, started
from tests.target.support import TAP, ingest, kept_ids, state, text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "photos"


@pytest.fixture
def web(https: HttpsServer, monkeypatch: pytest.MonkeyPatch) -> HttpsServer:
    monkeypatch.setenv("SSL_CERT_FILE", str(https.ca_file))
    return https


def from_web(web: HttpsServer, **more: Any) -> dict[str, Any]:
    return settings(web.url("/"), file_private_addresses=True, **more)


class Gated:
    """A page that is answered when the gate is opened; ``asked`` says that somebody waits for it."""

    def __init__(self) -> None:
        self.asked, self.opened = threading.Event(), threading.Event()

    def page(self, body: bytes) -> Page:
        def answer(connection: ssl.SSLSocket) -> bool:
            self.asked.set()
            return self.opened.wait(SOON) and page(body)(connection)

        return answer


@pytest.fixture
def gated() -> Iterator[Gated]:
    gated = Gated()
    yield gated
    gated.opened.set()


def test_a_state_waits_for_the_files_before_it(tmp_path: Path, web: HttpsServer, gated: Gated) -> None:
    root = tmp_path / "lake"
    web.pages["/a.jpg"] = gated.page(b"a photo")
    with started(root, tmp_path, max_file_records=1, **from_web(web)) as process:
        lines = [START, person(1), state({"at": 1}), person(2, photo=web.url("/a.jpg")), state({"at": 2}), person(3)]
        send(process, text(lines))
        assert process.stdout
        assert json.loads(process.stdout.readline()) == {"at": 1}
        assert gated.asked.wait(SOON)
        assert kept_ids(root) == [1]
        gated.opened.set()
        assert json.loads(process.stdout.readline()) == {"at": 2}
        assert rows(root) == [row(1, web.url("/a.jpg"), b"a photo", "image/jpeg")]
        process.communicate(timeout=SOON)
    assert kept_ids(root) == [1, 2, 3]


def test_a_file_that_fails_ends_a_run_that_has_nothing_else_to_do(
    tmp_path: Path, web: HttpsServer, gated: Gated
) -> None:
    web.pages["/a.jpg"] = gated.page(b"too large")
    with started(tmp_path / "lake", tmp_path, max_attached_bytes=1, **from_web(web)) as process:
        send(process, text([START, person(1, photo=web.url("/a.jpg"))]))
        assert gated.asked.wait(SOON)
        gated.opened.set()
        assert process.wait(SOON) == 1
    assert "it has more than 1 bytes" in (tmp_path / "log").read_text()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_run_between_two_files(
    tmp_path: Path, web: HttpsServer, gated: Gated, number: signal.Signals
) -> None:
    """A pipe may hold thousands of records whose files are still to come: a run that was told to end leaves them."""
    root = tmp_path / "lake"
    lines = [START]
    for at in range(100):
        web.pages[f"/{at}"] = gated.page(b"%d" % at)
        lines += [person(at, photo=web.url(f"/{at}")), state({"at": at})]
    with started(root, tmp_path, file_threads=2, **from_web(web)) as process:
        send(process, text(lines))
        assert gated.asked.wait(SOON)
        process.send_signal(number)
        gated.opened.set()
        out, _ = process.communicate(timeout=SOON)
    assert process.returncode == 128 + number
    ids = kept_ids(root)
    assert ids == list(range(len(ids)))
    assert len(ids) < 100
    states = [json.loads(line)["at"] for line in out.splitlines()]
    assert states[-1:] <= [len(ids) - 1]
    assert len(rows(root)) == len(ids)
    is_sound(root)
    ingest(root, lines, **from_web(web))
    assert kept_ids(root) == [*ids, *range(100)]


def test_so_does_one_between_two_files_of_a_record(tmp_path: Path, web: HttpsServer, gated: Gated) -> None:
    root = tmp_path / "lake"
    urls = [web.url(f"/{at}") for at in range(100)]
    for at in range(100):
        web.pages[f"/{at}"] = gated.page(b"%d" % at)
    lines = [START, person(1), state({"at": 1}), person(2, photo=urls), state({"at": 2})]
    with started(root, tmp_path, file_threads=2, **from_web(web)) as process:
        send(process, text(lines))
        assert gated.asked.wait(SOON)
        process.send_signal(signal.SIGTERM)
        gated.opened.set()
        out, _ = process.communicate(timeout=SOON)
    assert process.returncode == 128 + signal.SIGTERM
    assert (kept_ids(root), json.loads(out)) == ([1], {"at": 1})
    assert len(web.targets) < 100
    is_sound(root)
    ingest(root, lines, **from_web(web))
    assert kept_ids(root) == [1, 1, 2]
    assert [row.source for row in rows(root)] == urls


@pytest.mark.parametrize("size", [10, 2 << 20])
def test_a_full_disk_of_the_lake_fails_the_run_though_missing_files_do_not(
    tmp_path: Path, folder: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = photo(folder, "a.jpg", bytes(size))

    def full(method: Any) -> Any:
        def write(self: LocalStorage, key: str, *arguments: Any, **keywords: Any) -> Any:
            if layout.ATTACHED in key:
                raise StorageFullError("no space is left on the disk of the lake")
            return method(self, key, *arguments, **keywords)

        return write

    monkeypatch.setattr(LocalStorage, "put", full(LocalStorage.put))
    monkeypatch.setattr(LocalStorage, "upload", full(LocalStorage.upload))
    lines = [START, person(1, photo=path), state({"at": 1})]
    with pytest.raises(StorageFullError):
        ingest(tmp_path / "lake", lines, on_missing_file="record", **settings(folder))
    monkeypatch.undo()
    assert kept_ids(tmp_path / "lake") == []
    assert ingest(tmp_path / "lake", lines, **settings(folder)) == ['{"at": 1}']
    is_sound(tmp_path / "lake")


def test_so_does_a_folder_of_the_lake_without_permission(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = photo(folder, "a.jpg")
    ingest(tmp_path / "lake", [START, person(1)], **settings(folder))

    def denied(*_: Any, **__: Any) -> Any:
        raise AccessDeniedError("no permission to write in the lake")

    monkeypatch.setattr(LocalStorage, "put", denied)
    with pytest.raises(AccessDeniedError):
        ingest(tmp_path / "lake", [START, person(2, photo=path)], on_missing_file="record", **settings(folder))
    monkeypatch.undo()
    assert kept_ids(tmp_path / "lake") == [1]


def test_so_does_a_spool_that_takes_no_more(tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _ = photo(folder, "a.jpg", bytes(2 << 20))
    spool = tmp_path / "spool"
    spool.mkdir()

    def gone(target: Path, mode: str = "r", *arguments: Any, **keywords: Any) -> Any:
        if mode == "xb":
            raise OSError(28, "No space left on device")
        return original(target, mode, *arguments, **keywords)

    original = Path.open
    monkeypatch.setattr(Path, "open", gone)
    with pytest.raises(StorageFullError, match="no space is left for the spool"):
        ingest(
            tmp_path / "lake",
            [START, person(1, photo=path)],
            on_missing_file="record",
            spool_dir=str(spool),
            **settings(folder),
        )
    assert list(spool.iterdir()) == []
    assert objects(tmp_path / "lake") == {}


def test_a_source_that_changes_while_it_is_read_is_not_kept_half(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, _ = photo(folder, "a.jpg", b"x" * (2 << 20))

    def growing(self: Any, size: int = -1) -> bytes:
        with Path(path).open("ab") as file:
            file.write(b"y")
        return original(self, size)

    original = local.FileStream.read
    monkeypatch.setattr(local.FileStream, "read", growing)
    with pytest.raises(UnreadableSourceError, match="changed while it was read"):
        ingest(tmp_path / "lake", [START, person(1, photo=path)], **settings(folder))
    assert objects(tmp_path / "lake") == {}


def test_a_collector_that_deletes_the_same_bytes_meanwhile_fails_the_run_and_the_next_one_keeps_them(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, body = photo(folder, "a.jpg")
    root = tmp_path / "lake"
    ingest(root, [START, person(0, photo=path)], **settings(folder))

    def collected(self: GrowingFile) -> Any:
        found = original(self)
        expire = ("expire", "--tap", TAP, "--stream", "users", "--before-offset", "1", "--delete")
        for command in (expire, *[("gc", "--delete", "--grace", "0s")] * 2):
            done = CliRunner().invoke(main, [*command, str(root)])
            assert done.exit_code == 0, done.output
        assert objects(root) == {}
        return found

    original = GrowingFile.finish
    monkeypatch.setattr(GrowingFile, "finish", collected)
    lines = [START, person(1, photo=path), state({"at": 1})]
    with pytest.raises(CommitRefusedError, match=r"attached files are being deleted: .*; run again"):
        ingest(root, lines, on_missing_file="record", **settings(folder))
    monkeypatch.undo()
    assert ingest(root, lines, **settings(folder)) == ['{"at": 1}']
    (kept,) = rows(root)
    assert (kept.copy, list(objects(root).values())) == (2, [body])
    is_sound(root)

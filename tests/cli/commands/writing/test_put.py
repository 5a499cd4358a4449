"""``singerlake put``: what it keeps and says, and what it refuses before it writes."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from singerlake.attached import put as putting
from singerlake.attached.put import SCHEMA
from singerlake.attached.sources.local import FileStream
from singerlake.format import layout
from singerlake.format.state.features import features_of
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from singerlake.stream import LakeStream
from tests.attached.lakes import sha256
from tests.cli.commands.upkeep.test_vacuum import everything
from tests.cli.conftest import Run
from tests.servers.s3 import ACCESS_KEY_ID, ALWAYS, REGION, SECRET_ACCESS_KEY, S3Server

TO = ("--tap", "office", "--stream", "scans")
FILES = {"contract.pdf": b"a contract", "photos/b.jpg": b"b" * 1000, "photos/a/a.jpg": b"a contract", "z": b""}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with ``FILES``."""
    monkeypatch.chdir(tmp_path)
    for name, body in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)
        os.utime(path, (1_800_000_000, 1_800_000_000.25))
    return tmp_path


@pytest.fixture
def put(run: Run, folder: Path) -> Any:
    """Put files into the lake ``lake``."""

    def putting(*given: str, **more: Any) -> Result:
        return run("put", "lake", *TO, *given, **more)

    return putting


def stream() -> LakeStream:
    return Lake.open("lake").stream("office", "scans")


def records(of: LakeStream) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = of.to_arrow().read_all().to_pylist()
    return rows


def names(of: LakeStream) -> list[str]:
    return [row["name"] for row in records(of)]


def test_each_file_has_a_record_in_the_order_given(put: Any) -> None:
    done = put("z", "photos", "contract.pdf", "--recursive")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "office/scans: 4 files put, 1.0 kB; 1 there already\n"
    there = records(stream())
    assert [(row["name"], row["bytes"], row["media_type"]) for row in there] == [
        ("z", 0, "application/octet-stream"),
        ("a/a.jpg", 10, "image/jpeg"),
        ("b.jpg", 1000, "image/jpeg"),
        ("contract.pdf", 10, "application/pdf"),
    ]
    assert there[3]["sha256"] == sha256(b"a contract")
    assert {row["modified"].isoformat() for row in there} == {"2027-01-15T08:00:00.250000+00:00"}
    assert {row["_rescued_data"] for row in there} == {None}
    line = next(iter(next(iter(lines(stream()))).data.split(b"\n")))
    assert list(json.loads(line)) == ["type", "stream", "record", "time_extracted"]


def lines(of: LakeStream) -> Any:
    from singerlake.format.state.selection import Slice

    return (block for file in of.snapshot().files for block in of.read(Slice(file, 0)))


def test_each_record_has_its_file_attached(put: Any, run: Run) -> None:
    put("photos", "contract.pdf", "--recursive")
    rows = [(offset, row.property, row.source, row.media_type) for offset, row in stream().attached()]
    assert rows == [
        (0, "name", "a/a.jpg", "image/jpeg"),
        (1, "name", "b.jpg", "image/jpeg"),
        (2, "name", "contract.pdf", "application/pdf"),
    ]
    bodies = []
    for _, row in stream().attached():
        with stream().open_file(row) as opened:
            bodies.append(opened.read())
    assert bodies == [b"a contract", b"b" * 1000, b"a contract"]
    assert len(list(Path("lake/raw/office/scans/_files").rglob("?" * 64))) == 2
    assert features_of(stream().snapshot()) == ("attached",)
    assert run("verify", "lake").exit_code == 0


def test_the_rows_are_in_the_data_file_too(put: Any, run: Run) -> None:
    put("photos", "z", "--recursive")
    before = list(stream().attached())
    Path("lake/raw/office/scans/manifest.json").unlink()
    assert run("rebuild", "--yes", "lake").exit_code == 0
    assert list(stream().attached()) == before


def test_a_stream_of_files_is_a_stream_as_any(put: Any, run: Run) -> None:
    put("z")
    assert "office  scans   v1" in run("ls", "lake").stdout
    [entry] = Lake.open("lake").catalogue("office")["streams"]
    assert (entry["schema"], entry["key_properties"]) == (SCHEMA, ["name"])
    status = json.loads(run("status", "lake", "--json").stdout)["streams"][0]["runs"]
    assert [(each["kind"], each["outcome"], each["records"]) for each in status] == [("capture", "completed", 1)]
    assert run("lock", "ls", "lake").stdout == "no locks\n"


def test_the_same_content_again_is_a_new_record_and_no_new_object(put: Any) -> None:
    put("contract.pdf")
    objects = everything(Path("lake/raw/office/scans/_files"))
    told = json.loads(put("contract.pdf", "--json").stdout)
    assert everything(Path("lake/raw/office/scans/_files")) == objects
    assert names(stream()) == ["contract.pdf"] * 2
    run_id = stream().snapshot().runs[-1].id
    assert told == {
        "lake": str(Path("lake").resolve()),
        "tap": "office",
        "stream": "scans",
        "run": run_id,
        "records": 1,
        "bytes": 10,
        "data_files": 1,
        "new_files": 0,
        "new_bytes": 0,
    }


def test_many_files_go_into_data_files_of_a_limited_size(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singerlake.upkeep.put.RECORDS", 2)
    for number in range(5):
        Path(f"photos/{number}").write_text(str(number))
    told = json.loads(put("photos", "--recursive", "--json", "--threads", "3").stdout)
    assert (told["records"], told["data_files"]) == (7, 4)
    manifest = stream().snapshot()
    assert [file.messages for file in manifest.files] == [2, 2, 2, 1]
    [ran] = manifest.runs
    assert (ran.status, ran.files, ran.records) == ("finished", 4, 7)
    assert names(stream()) == ["0", "1", "2", "3", "4", "a/a.jpg", "b.jpg"]


def test_an_empty_folder_is_nothing_to_put(put: Any) -> None:
    os.mkdir("empty")
    done = put("empty", "--recursive")
    assert (done.exit_code, done.stdout) == (0, "office/scans: nothing to put\n")
    assert json.loads(put("empty", "--recursive", "--json").stdout)["run"] is None
    assert not Path("lake").exists()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["z", "nope"], "error: no such file; check its name (file='nope')\n"),
        (["photos"], "error: this is a folder; add --recursive, or name the files in it (file='photos')\n"),
        (["z", "fifo"], "error: this is a FIFO; "),
        (["z", "photos/../z"], "error: two files would be called 'z'; "),
        (["z", os.fsdecode(b"\xff")], "error: the name of this file is not UTF-8, which records are; rename it"),
        ([".", "--recursive"], "error: this is a FIFO; "),
        (
            ["z", "--spool-dir", "nope"],
            "error: the spool cannot be written: no such file or directory; check its disk, or",
        ),
    ],
)
def test_bad_input_changes_nothing(put: Any, given: list[str], message: str) -> None:
    os.mkfifo("fifo")
    Path(os.fsdecode(b"\xff")).touch()
    done = put(*given)
    assert done.exit_code == (1 if "nope" in given and "--spool-dir" in given else 2)
    assert done.stderr.startswith(message)
    assert "spool_dir" not in done.stderr
    assert not Path("lake").exists()
    told = json.loads(put(*given, "--json").stdout)
    assert told["error"]["kind"] in ("setting", "storage_unavailable")


def test_a_file_that_changes_meanwhile_fails_the_run(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    read = FileStream.read

    def appending(self: FileStream, size: int) -> bytes:
        with open("contract.pdf", "ab") as writing:
            writing.write(b"!")
        return read(self, size)

    monkeypatch.setattr(FileStream, "read", appending)
    done = put("z", "contract.pdf", "--json")
    assert (done.exit_code, json.loads(done.stdout)["error"]["kind"]) == (1, "changed_file")
    assert stream().snapshot().next_offset == 0


def test_a_run_that_fails_later_keeps_what_it_committed_and_says_so(
    put: Any, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("singerlake.upkeep.put.RECORDS", 1)
    real, left = putting.Putter.put, [1]

    def failing(self: Any, *given: Any) -> Any:
        if not left:
            raise putting._changed(given[0])
        left.pop()
        return real(self, *given)

    with monkeypatch.context() as patch:
        patch.setattr(putting.Putter, "put", failing)
        assert put("z", "contract.pdf", "--threads", "1").exit_code == 1
    assert names(stream()) == ["z"]
    [ran] = stream().snapshot().runs
    assert ran.status == "failed"
    assert put("z", "contract.pdf").exit_code == 0
    assert names(stream()) == ["z", "z", "contract.pdf"]
    assert run("verify", "lake").exit_code == 0


def test_an_interrupted_run_says_so(put: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("singerlake.upkeep.put.RECORDS", 1)
    real, seen = LocalStorage.upload, list[str]()

    def interrupted(self: LocalStorage, key: str, path: Path, ready: Callable[[], object]) -> int:
        seen.append(key)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return real(self, key, path, ready)

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, "upload", interrupted)
        done = put("z", "contract.pdf")
    assert (done.exit_code, done.stdout) == (130, "")
    assert [each.status for each in stream().snapshot().runs] == ["stopped"]
    assert names(stream()) == ["z"]


def test_a_place_that_holds_something_else_is_no_new_lake(run: Run, folder: Path) -> None:
    done = run("put", "photos", *TO, "z")
    assert (done.exit_code, "error: something else than a lake is there" in done.stderr) == (2, True)
    assert run("put", "z", *TO, "contract.pdf").exit_code == 2
    os.mkdir("empty")
    assert run("put", "empty", *TO, "z").exit_code == 0
    os.makedirs("begun/_singerlake_probe/x")
    Path("begun/_singerlake_probe/x/created").write_text("1")
    assert run("put", "begun", *TO, "z").exit_code == 0
    assert Path("empty/raw/office/scans/manifest.json").exists()


def test_the_lake_may_be_named_by_the_environment(run: Run, put: Any, folder: Path) -> None:
    put("z")
    env = {"SINGERLAKE_LAKE_ROOT": "lake"}
    assert run("put", *TO, "z", env=env).exit_code == 0
    assert run("put", *TO, "photos", "z", "--recursive", env=env).exit_code == 0
    assert names(stream()) == ["z", "z", "a/a.jpg", "b.jpg", "z"]
    os.mkdir("other")
    assert run("put", "other", *TO, "z").exit_code == 0
    assert run("put", "other", *TO, "contract.pdf", env=env).exit_code == 0
    assert names(Lake.open("other").stream("office", "scans")) == ["z", "contract.pdf"]
    assert "no such file" in run("put", "third", *TO, "z", env=env).stderr


def test_a_folder_of_raw_photos_is_no_lake(run: Run, put: Any, folder: Path) -> None:
    put("z")
    Path("camera/raw/2026").mkdir(parents=True)
    Path("camera/raw/2026/1.cr2").write_bytes(b"raw")
    env = {"SINGERLAKE_LAKE_ROOT": "lake"}
    assert run("put", *TO, "camera", "contract.pdf", "--recursive", env=env).exit_code == 0
    assert run("put", *TO, "camera", "--recursive", env=env).exit_code == 0
    assert names(stream()) == ["z", "raw/2026/1.cr2", "contract.pdf", "raw/2026/1.cr2"]
    assert sorted(os.listdir("camera/raw")) == ["2026"]


def test_what_is_being_collected_is_kept_as_another_copy(put: Any, run: Run) -> None:
    put("z", "contract.pdf")
    where = "name = 'z'"
    assert run("erase", "lake", *TO, "--where", where, "--delete").exit_code == 0
    assert put("z").stdout == "office/scans: 1 file put, 0 B\n"
    [row] = [row for _, row in stream().attached() if row.source == "z"]
    assert row.copy == 2
    for _ in range(3):
        assert run("gc", "lake", "--delete", "--grace", "0s").exit_code == 0
    with stream().open_file(sha256(b"")) as opened:
        assert opened.read() == b""
    assert run("verify", "lake").exit_code == 0
    left = {path.name for path in Path("lake/raw/office/scans/_files").rglob("*") if path.is_file()}
    assert left == {sha256(b"") + ".2", sha256(b"a contract")}


@pytest.fixture
def s3_run(run: Run, s3: S3Server) -> Any:
    url = f"s3://{s3.create_bucket(f'put-{uuid.uuid4().hex[:12]}')}/lake"
    env = {
        "SINGERLAKE_AWS_ACCESS_KEY_ID": ACCESS_KEY_ID,
        "SINGERLAKE_AWS_SECRET_ACCESS_KEY": SECRET_ACCESS_KEY,
        "SINGERLAKE_AWS_REGION": REGION,
        "SINGERLAKE_S3_ENDPOINT_URL": s3.endpoint_url,
    }
    return lambda name, *more: run(name, url, *more, env=env)


def test_files_go_to_s3_without_permission_to_delete(s3_run: Any, s3: S3Server, folder: Path) -> None:
    s3.calm()
    s3.fail("DELETE,POST", status=403, code="AccessDenied", times=ALWAYS)
    (folder / "large").write_bytes(b"0123456789abcdef" * (putting.IN_MEMORY // 8))
    for _ in range(2):
        done = s3_run("put", *TO, ".", "--recursive")
        assert (done.exit_code, done.output.count("5 files put")) == (0, 1), done.output
    s3.calm()
    done = s3_run("verify")
    assert (done.exit_code, "sound: 1 stream, 2 files, 10 messages" in done.stdout) == (0, True)


def test_a_lost_reply_and_a_busy_server_lose_nothing(s3_run: Any, s3: S3Server, folder: Path) -> None:
    s3.calm()
    s3.drop_reply("PUT", times=2, key_contains="_files/")
    s3.fail("PUT", status=503, code="SlowDown", times=2, key_contains="_files/", after=True)
    done = s3_run("put", *TO, "photos", "z", "--recursive", "--threads", "2")
    assert (done.exit_code, "3 files put" in done.stdout) == (0, True), done.output
    s3.calm()
    assert s3_run("verify").exit_code == 0


def test_without_permission_to_write_nothing_is_listed(s3_run: Any, s3: S3Server, folder: Path) -> None:
    s3_run("put", *TO, "z")
    s3.fail("PUT", status=403, code="AccessDenied", times=ALWAYS, key_contains="_files/")
    done = s3_run("put", *TO, "contract.pdf")
    assert (done.exit_code, "error: storage denied access; grant" in done.stderr) == (2, True), done.output
    s3.calm()
    assert "2 files" not in s3_run("ls").stdout
    assert layout.ATTACHED not in s3_run("verify").stdout

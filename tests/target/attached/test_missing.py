"""Files that cannot be read, or must not be: the run fails, or goes on without them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import UnreadableSourceError
from tests.processes import plugins
from tests.servers.s3 import S3Server
from tests.servers.web.https import HttpsServer, page, redirect
from tests.target.attached.files import START, is_sound, objects, person, photo, row, rows, settings, without
from tests.target.support import TAP, environment, ingest, kept, kept_ids, manifest, run, state, text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An allowed folder, with what is no file in it."""
    folder = tmp_path / "photos"
    folder.mkdir()
    (folder / "link.jpg").symlink_to("/etc/passwd")
    os.mkfifo(folder / "pipe.jpg")
    with (folder / "sparse.jpg").open("wb") as file:
        file.truncate(10 << 30)
    return folder


HOSTILE: dict[str, tuple[Any, str]] = {
    "no text": (3, "neither a text nor a list of texts"),
    "an object": ({"url": "x"}, "neither a text nor a list of texts"),
    "a list of lists": ([["/a"]], "neither a text nor a list of texts"),
    "empty": ("", "the location is empty"),
    "relative": ("a.jpg", "relative path"),
    "base64": ("aHVudGVyMg==", "relative path, or bytes as base64"),
    "a JPEG as base64": ("/9j/aHVudGVyMmh1bnRlcjJodW50ZXIy", "the text is bytes as base64"),
    "up": ("FOLDER/../../etc/passwd", "not allowed"),
    "not below": ("/etc/passwd", "not allowed"),
    "a link out": ("FOLDER/link.jpg", "not allowed"),
    "missing": ("FOLDER/none.jpg", "no such file"),
    "a folder": ("FOLDER", "not allowed"),
    "a pipe": ("FOLDER/pipe.jpg", "no file"),
    "sparse": ("FOLDER/sparse.jpg", "more than 5,368,709,120 bytes"),
    "a device": ("/dev/zero", "not allowed"),
    "a process": ("/proc/self/environ", "not allowed"),
    "http": ("http://localhost/a", "http:// URL is not read"),
    "https": ("https://localhost/a", "not allowed"),
    "metadata": ("http://169.254.169.254/latest/meta-data", "http:// URL is not read"),
    "s3": ("s3://bucket/key", "not allowed"),
    "a user": ("https://ada:hunter2@localhost/a", "holds a user"),
    "data": ("data:,hunter2", "data: URL"),
    "odd": ("/a\ud800", "characters that no name can have"),
    "long": ("/" + "x" * 10_000, "more than 8,000 characters"),
}
"""Values that a tap could send for a location, and why each is not read. FOLDER stands for the allowed one."""


def sent(kind: str, folder: Path) -> Any:
    value, _ = HOSTILE[kind]
    return value.replace("FOLDER", str(folder)) if isinstance(value, str) else value


@pytest.mark.parametrize("kind", HOSTILE)
def test_by_default_one_ends_the_run_and_nothing_of_it_is_passed_on(tmp_path: Path, folder: Path, kind: str) -> None:
    lines = [START, person(1), state({"at": 1}), person(2, photo=sent(kind, folder)), state({"at": 2})]
    with pytest.raises(UnreadableSourceError, match=HOSTILE[kind][1]) as caught:
        ingest(tmp_path / "lake", lines, max_file_records=1, **settings(folder))
    assert "stream='users', property='photo'" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert "aHVudGVyM" not in str(caught.value)
    assert kept_ids(tmp_path / "lake") in ([], [1])
    assert objects(tmp_path / "lake") == {}


def test_with_record_all_of_them_are_listed_without_their_bytes(
    tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path, body = photo(folder, "good.jpg")
    values = [sent(kind, folder) for kind in HOSTILE]
    lines = [person(at, photo=value) for at, value in enumerate([*values, path, *values])]
    emitted = ingest(tmp_path / "lake", [START, *lines, state({"at": 1})], on_missing_file="record", **settings(folder))
    assert emitted == ['{"at": 1}']
    assert kept(tmp_path / "lake") == lines
    found = rows(tmp_path / "lake")
    assert [each for each in found if each.sha256] == [row(len(values), path, body, "image/jpeg")]
    assert len(found) == 2 * len(values) + 1
    sources = {kind: each.source for kind, each in zip(HOSTILE, found, strict=False)}
    assert (sources["missing"], sources["a user"]) == (str(folder / "none.jpg"), "https://localhost/a")
    assert [sources[kind] for kind in ("no text", "data", "odd", "long", "base64")] == [None] * 5
    assert manifest(tmp_path / "lake").runs[-1].status == "finished"
    warned = [record.getMessage() for record in caplog.records if "cannot be kept" in record.getMessage()]
    assert len(warned) == len(set(warned)) == len({text.split(" (")[0] for text in warned})
    assert f"{2 * len(HOSTILE)} files could not be read" in caplog.text
    assert "hunter2" not in caplog.text
    assert "aHVudGVyM" not in caplog.text
    is_sound(tmp_path / "lake")


@pytest.mark.parametrize("value", ["not base64!", "data:text/plain,hello", 3, "A" * 5])
def test_so_are_bytes_that_are_not_base64(tmp_path: Path, value: Any) -> None:
    chosen = settings("/photos", {"scan": "base64"})
    with pytest.raises(UnreadableSourceError):
        ingest(tmp_path / "lake", [START, person(1, scan=value)], **chosen)
    ingest(tmp_path / "lake", [START, person(1, scan=[value, "aGVsbG8"])], on_missing_file="record", **chosen)
    assert rows(tmp_path / "lake") == [
        without(0, None, "scan"),
        row(0, None, b"hello", "application/octet-stream", "scan"),
    ]


def test_nothing_is_read_from_anywhere_by_default(tmp_path: Path, folder: Path) -> None:
    path, _ = photo(folder, "a.jpg")
    with pytest.raises(UnreadableSourceError, match="file_sources"):
        ingest(tmp_path / "lake", [START, person(1, photo=path)], file_properties={"users": {"photo": "location"}})


@pytest.mark.parametrize("size", [10, 2 << 20])
def test_a_limit_of_bytes_holds_for_each_kind(tmp_path: Path, folder: Path, size: int) -> None:
    path, body = photo(folder, "a.jpg", bytes(size))
    chosen = settings(folder, {"photo": "location", "scan": "base64"})
    lines = [START, person(1, photo=path), person(2, scan="A" * (size * 4 // 3 + 4))]
    ingest(tmp_path / "lake", lines, on_missing_file="record", max_attached_bytes=size - 1, **chosen)
    assert rows(tmp_path / "lake") == [without(0, path), without(1, None, "scan")]
    ingest(tmp_path / "more", lines[:2], max_attached_bytes=size, **chosen)
    assert rows(tmp_path / "more") == [row(0, path, body, "image/jpeg")]


def test_an_outage_of_a_source_is_a_file_that_cannot_be_read(tmp_path: Path, s3: S3Server) -> None:
    name = s3.create_bucket("gone")
    lines = [START, person(1, photo=f"s3://{name}/none")]
    s3.fail("GET", status=403, code="AccessDenied")
    for _ in range(2):
        ingest(tmp_path, lines, on_missing_file="record", **settings(f"s3://{name}"), **s3.config())
    assert rows(tmp_path) == [without(at, f"s3://{name}/none") for at in range(2)]


@pytest.mark.parametrize("private", [True, False])
def test_hosts_with_private_addresses_are_left_alone_unless_that_is_set(
    tmp_path: Path, https: HttpsServer, private: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(https.ca_file))
    https.pages["/a.jpg"] = page(b"a photo")
    https.pages["/b.jpg"] = redirect("https://169.254.169.254/latest/meta-data/")
    lines = [START, person(1, photo=[https.url("/a.jpg"), https.url("/b.jpg"), https.url("/none?secret")])]
    chosen = settings(https.url("/"), file_private_addresses=private, on_missing_file="record")
    ingest(tmp_path, lines, **chosen)
    first = row(0, https.url("/a.jpg"), b"a photo", "image/jpeg")
    assert rows(tmp_path)[0] == (first if private else without(0, https.url("/a.jpg")))
    assert rows(tmp_path)[1:] == [without(0, https.url("/b.jpg")), without(0, https.url("/none"))]
    assert bool(https.requests) is private


def test_the_error_of_a_process_is_one_line_and_its_exit_code_1(tmp_path: Path, folder: Path) -> None:
    lines = [START, person(1, photo="https://ada:hunter2@localhost/a?token=hunter2")]
    done = run(tmp_path / "lake", tmp_path, lines, **settings(folder))
    assert (done.code, done.states, len(done.errors)) == (1, [], 1)
    assert "a file of a record cannot be kept: a URL that holds a user is not read" in done.errors[0]
    assert "source='https://localhost/a'" in done.errors[0]
    assert "hunter2" not in done.log
    assert [each.status for each in manifest(tmp_path / "lake").runs] in ([], ["failed"])


def test_a_typing_mistake_in_the_setting_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    chosen = {"file_properties": {"users": {"foto": "location"}, "usres": {"photo": "location"}}}
    ingest(tmp_path, [START, person(1, photo="x")], **chosen)
    assert "file_properties names 'foto', which the schema of stream 'users' does not have" in caplog.text
    assert "file_properties names stream 'usres', and no SCHEMA of it came" in caplog.text


def test_a_folder_that_is_not_there_is_told_at_the_start_and_to_its_files(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    chosen = settings(tmp_path / "photo")
    told = f"file_sources allows '{tmp_path}/photo', but there is no such folder"
    ingest(tmp_path / "lake", [START, person(1)], **chosen)
    assert told in [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    with pytest.raises(UnreadableSourceError, match=f"a file of a record cannot be kept: {told}; correct the entry"):
        ingest(tmp_path / "lake", [START, person(2, photo=f"{tmp_path}/photo/a.jpg")], **chosen)


def test_a_folder_that_is_there_is_not_told_of(tmp_path: Path, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    ingest(tmp_path / "lake", [START, person(1)], **settings(folder))
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == []


def test_settings_of_files_without_a_property_are_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    told = "file_properties names no property that has files, so nothing is done with: "
    for properties in (None, {}, {"users": {}}):
        caplog.clear()
        chosen = {"file_sources": ["/photos"], "file_threads": 2, "on_missing_file": "fail"}
        ingest(tmp_path, [START, person(1)], file_properties=properties, **chosen)
        warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert warned == [told + "file_sources, file_threads"]
    caplog.clear()
    ingest(tmp_path, [START, person(1)], file_sources=[], file_threads=8, file_private_addresses=False)
    assert "file_properties" not in caplog.text


@pytest.mark.parametrize(
    ("setting", "value", "says"),
    [
        ("file_properties", {"users": {"photo..": "location"}}, "not a path"),
        ("file_properties", {"users": {"photo": "url"}}, "'url' is not one of"),
        ("file_properties", {"users": ["photo"]}, "is not of type 'object'"),
        ("file_properties", ["photo"], "is not of type 'object'"),
        ("file_sources", ["photos"], "file_sources has an entry that means no place"),
        ("file_sources", ["s3://no_bucket!"], "file_sources has a bucket name"),
        ("file_sources", ["http://localhost"], "http:// URL is not read"),
        ("file_sources", "/photos", "is not of type 'array'"),
        ("file_threads", 33, "33 is greater than the maximum of 32"),
        ("file_threads", 0, "0 is less than the minimum of 1"),
        ("max_attached_bytes", 0, "0 is less than the minimum of 1"),
        ("file_timeout_seconds", 0, "0 is less than the minimum of 1"),
        ("on_missing_file", "skip", "'skip' is not one of"),
    ],
)
def test_a_setting_that_is_wrong_is_named_before_anything_is_read(
    tmp_path: Path, setting: str, value: Any, says: str
) -> None:
    done = run(tmp_path / "lake", tmp_path, [START], **{setting: value})
    assert done.code == 1
    assert says in done.log
    assert not (tmp_path / "lake").exists()


def test_the_settings_may_be_environment_variables(tmp_path: Path, folder: Path) -> None:
    path, body = photo(folder, "a.jpg")
    variables = {
        "LAKE_ROOT": str(tmp_path / "lake"),
        "TAP_ID": TAP,
        "FILE_PROPERTIES": json.dumps({"users": {"photo": "location"}}),
        "FILE_SOURCES": json.dumps([str(folder)]),
        "FILE_THREADS": "2",
    }
    env = environment({f"TARGET_SINGERLAKE_{name}": value for name, value in variables.items()})
    done = plugins.run("target", ["--config=ENV"], text([START, person(1, photo=path)]), env=env)
    assert done.returncode == 0, done.stderr.decode()
    assert rows(tmp_path / "lake") == [row(0, path, body, "image/jpeg")]

"""BATCH messages: files of bare records become RECORD messages with the records' own bytes."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from singer_sdk.exceptions import InvalidInputLine, MissingKeyPropertiesError, RecordsWithoutSchemaException

from singerlake.aws.settings import S3Settings
from singerlake.clock import random_id
from singerlake.errors import InvalidMessageError, MissingFileError, SingerlakeError
from singerlake.storage.drivers.s3 import driver as s3_driver
from singerlake.storage.drivers.s3.client import connect
from singerlake.storage.patience import Patience
from tests.servers.s3 import S3Server
from tests.target.support import ingest, kept, kept_ids, manifest, record, records, schema, state

LINES = [b'{"id": 1,  "n": 1.10}', b'{"id":2,"name":"\\u00e9 \xc3\xa9"}', b'{"id": 3, "name": NaN}', b'{"id":4}']


def batch(*urls: str, compression: str | None = "gzip", stream: str = "users", **more: Any) -> bytes:
    encoding = {"format": "jsonl", "compression": compression}
    return json.dumps({"type": "BATCH", "stream": stream, "encoding": encoding, "manifest": urls, **more}).encode()


def put(path: Path, lines: list[bytes], *, zipped: bool = True) -> str:
    data = b"\n".join(lines)
    path.write_bytes(gzip.compress(data) if zipped else data)
    return path.as_uri()


@pytest.mark.parametrize("zipped", [True, False])
def test_records_of_batch_files_are_kept_byte_for_byte(tmp_path: Path, zipped: bool) -> None:
    first = put(tmp_path / "1 %20.gz", LINES[:3], zipped=zipped)
    put(tmp_path / "2.gz", [*LINES[3:], b""], zipped=zipped)
    message = batch(first, str(tmp_path / "2.gz"), compression="gzip" if zipped else None, version=9)
    out = ingest(tmp_path / "lake", [schema(), record(0), message, record(5), state({"at": 5})])
    assert out == ['{"at": 5}']
    found = kept(tmp_path / "lake")
    assert kept_ids(tmp_path / "lake") == [0, 1, 2, 3, 4, 5]
    for line, sent in zip(found[1:5], LINES, strict=True):
        assert sent in line
        assert json.loads(line)["version"] == 9
        assert json.loads(line)["stream"] == "users"
    assert len(manifest(tmp_path / "lake").files) == 1
    assert (tmp_path / "2.gz").exists()


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("file://files/b.gz", "files/b.gz"),
        ("file://b.gz", "b.gz"),
        ("file://./files/../b.gz", "b.gz"),
        ("file:files/b.gz", "files/b.gz"),
        ("files/b.gz", "files/b.gz"),
        ("FILE://files/b.gz", "files/b.gz"),
        ("file://files/b#1?x=%20.gz", "files/b#1?x=%20.gz"),
        ("file://files/a%20b.gz", "files/a b.gz"),
        ("file://C:/b.gz", "C:/b.gz"),
        ("file://~/b.gz", "home/b.gz"),
        ("file://{here}/files/b.gz", "files/b.gz"),
        ("file:{here}/files/b.gz", "files/b.gz"),
        ("file:///{here}/files/b.gz", "files/b.gz"),
        ("file://localhost{here}/files/b.gz", "files/b.gz"),
    ],
)
def test_a_file_url_is_read_as_singer_sdk_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, file: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "files").mkdir()
    (tmp_path / file).parent.mkdir(exist_ok=True)
    put(tmp_path / file, LINES)
    ingest(tmp_path / "lake", [schema(), batch(url.format(here=tmp_path))])
    assert kept_ids(tmp_path / "lake") == [1, 2, 3, 4]


def test_a_file_url_as_it_stands_comes_before_what_its_escapes_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the target of singer-sdk reads it, which decodes nothing."""
    monkeypatch.chdir(tmp_path)
    put(tmp_path / "a%20b.gz", LINES[:1])
    put(tmp_path / "a b.gz", LINES[1:])
    (tmp_path / "localhost").mkdir()
    put(tmp_path / "localhost" / "b.gz", LINES[3:])
    ingest(tmp_path / "lake", [schema(), batch("file://a%20b.gz", "file://localhost/b.gz")])
    assert kept_ids(tmp_path / "lake") == [1, 4]


def test_a_batch_of_many_blocks_is_kept(tmp_path: Path) -> None:
    url = put(tmp_path / "b.gz", [b'{"id": %d, "filler": "%s"}' % (id, b"x" * 300) for id in range(10_000)])
    ingest(tmp_path / "lake", [schema(), batch(url)], max_memory_bytes=1 << 20)
    assert kept_ids(tmp_path / "lake") == list(range(10_000))


def test_batch_records_are_mapped_like_any_record(tmp_path: Path) -> None:
    url = put(tmp_path / "b.gz", LINES)
    maps = {"users": {"__alias__": "people", "twice": "id * 2"}}
    ingest(tmp_path / "lake", [schema(), batch(url)], stream_maps=maps)
    found = [json.loads(line)["record"] for line in kept(tmp_path / "lake", "people")]
    assert [(each["id"], each["twice"]) for each in found] == [(1, 2), (2, 4), (3, 6), (4, 8)]
    assert b"1.10" in kept(tmp_path / "lake", "people")[0]


def test_a_batch_on_s3_is_read_with_the_settings(tmp_path: Path, s3: S3Server) -> None:
    bucket = s3.create_bucket(f"batches-{random_id()}")
    s3.client().put_object(Bucket=bucket, Key="some/b.gz", Body=gzip.compress(b"\n".join(LINES)))
    ingest(tmp_path / "lake", [schema(), batch(f"s3://{bucket}/some/b.gz")], **s3.config())
    assert kept_ids(tmp_path / "lake") == [1, 2, 3, 4]
    with pytest.raises(MissingFileError):
        ingest(tmp_path / "lake", [schema(), batch(f"s3://{bucket}/missing.gz")], **s3.config())


def test_files_in_one_bucket_are_read_by_one_client(
    tmp_path: Path, s3: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket, connected = s3.create_bucket(f"batches-{random_id()}"), list[S3Settings]()

    def counting(settings: S3Settings, patience: Patience) -> Any:
        connected.append(settings)
        return connect(settings, patience)

    monkeypatch.setattr(s3_driver, "connect", counting)
    for number, line in enumerate(LINES):
        s3.client().put_object(Bucket=bucket, Key=f"{number}.gz", Body=gzip.compress(line))
    urls = [f"s3://{bucket}/{number}.gz" for number in range(len(LINES))]
    ingest(tmp_path / "lake", [schema(), batch(*urls[:2]), batch(*urls[2:])], **s3.config())
    assert kept_ids(tmp_path / "lake") == [1, 2, 3, 4]
    assert len(connected) == 1


@pytest.mark.parametrize(
    ("lines", "kind", "line"),
    [
        ([b'{"id": 1}', b'{"password": "hunter2"'], InvalidInputLine, 2),
        ([b'{"id": 1}', b"[1]"], InvalidInputLine, 2),
        ([b'{"id": 1}', b'{"id": 2}, "record": {"id": 3}'], InvalidInputLine, 2),
        ([b'{"id": 1}', b'{"id": 2}{"id": 3}'], InvalidInputLine, 2),
        ([b'{"id": 1}', b'{"id": 2'], InvalidInputLine, 2),
        ([b'{"id": 1}', b'{"name": "x"}'], MissingKeyPropertiesError, 2),
    ],
)
def test_a_bad_line_of_a_batch_file_is_named_with_its_file(
    tmp_path: Path, lines: list[bytes], kind: type, line: int
) -> None:
    url = put(tmp_path / "b.gz", lines)
    with pytest.raises(kind) as raised:
        ingest(tmp_path / "lake", [schema(), record(0), state({"at": 0}), batch(url)])
    assert isinstance(raised.value, SingerlakeError)
    assert (raised.value.context["line"], raised.value.context["batch_file"]) == (line, url)
    assert "hunter2" not in str(raised.value)
    assert kept_ids(tmp_path / "lake")[0] == 0


@pytest.mark.parametrize(
    ("message", "says"),
    [
        (batch("file:///no/such/file"), "cannot be read"),
        (batch("file://[::1"), "cannot be read"),
        (batch("/no\0file"), "cannot be read"),
        (batch("r2://bucket/key"), "cannot read"),
        (batch("file://no/such.gz"), "relative path is looked for where the target runs"),
        (batch("file:"), "cannot be read"),
        (batch("C:\\data\\b.gz"), "cannot read"),
        (batch("x", compression="zstd"), "not supported"),
        (batch("x").replace(b"jsonl", b"parquet"), "not supported"),
        (b'{"type": "BATCH", "stream": "users", "manifest": ["x"]}', "no encoding"),
        (b'{"type": "BATCH", "stream": "users", "encoding": {"format": "jsonl"}, "manifest": [3]}', "list of URLs"),
    ],
)
def test_a_batch_that_cannot_be_read_is_a_clear_error(tmp_path: Path, message: bytes, says: str) -> None:
    with pytest.raises(InvalidMessageError, match=says):
        ingest(tmp_path / "lake", [schema(), *records(1), message])
    assert kept_ids(tmp_path / "lake") == [1]


@pytest.mark.parametrize("cut", [10, -4])
def test_a_batch_file_that_is_damaged_is_a_clear_error(tmp_path: Path, cut: int) -> None:
    put(tmp_path / "b.gz", LINES)
    data = (tmp_path / "b.gz").read_bytes()
    (tmp_path / "b.gz").write_bytes(data[:cut] if cut > 0 else data[:cut] + b"zzzz")
    with pytest.raises(InvalidMessageError, match="cannot be read"):
        ingest(tmp_path / "lake", [schema(), batch((tmp_path / "b.gz").as_uri())])


def test_a_batch_before_its_schema_is_refused(tmp_path: Path) -> None:
    url = put(tmp_path / "b.gz", LINES)
    with pytest.raises(RecordsWithoutSchemaException):
        ingest(tmp_path / "lake", [batch(url)])

"""Files that records name or hold are in the lake, once, and listed with their records."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from singerlake.format.state.features import features_of
from singerlake.lake import Lake
from tests.faults.support.haste import hasten
from tests.servers.s3 import S3Server
from tests.servers.web.https import HttpsServer, page
from tests.stores.stores import KINDS
from tests.target.attached.files import START, is_sound, objects, person, photo, row, rows, settings, without
from tests.target.support import TAP, activate, ingest, kept, manifest, record, schema, state

LINES_OF_A_MEMBER = 100


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "photos"


def test_files_are_kept_and_listed_with_their_records_and_lines_stay_as_they_are(tmp_path: Path, folder: Path) -> None:
    (one, first), (two, second) = photo(folder, "a.jpg"), photo(folder, "below/b.png")
    lines = [person(1, photo=one), activate(3), person(2, photo=None), person(3), person(4, photo=two)]
    assert ingest(tmp_path / "lake", [START, *lines, state({"at": 4})], **settings(folder)) == ['{"at": 4}']
    assert kept(tmp_path / "lake") == lines
    assert rows(tmp_path / "lake") == [row(0, one, first, "image/jpeg"), row(4, two, second, "image/png")]
    assert sorted(objects(tmp_path / "lake").values()) == sorted([first, second])
    assert features_of(manifest(tmp_path / "lake")) == ("attached",)
    is_sound(tmp_path / "lake")


def test_a_stream_without_files_is_what_it_was(tmp_path: Path, folder: Path) -> None:
    ingest(tmp_path, [START, person(1), schema("other"), record(1, "other")], **settings(folder))
    for stream in ("users", "other"):
        assert features_of(manifest(tmp_path, stream)) == ()
        assert rows(tmp_path, stream) == []


@pytest.mark.parametrize(
    ("property", "record", "names"),
    [
        ("user.photo", {"user": {"photo": "a"}}, ["a"]),
        ("photos[*].url", {"photos": [{"url": "b"}, {}, {"url": None}, {"url": "a"}]}, ["b", "a"]),
        ("photos", {"photos": ["c", None, "a", "c"]}, ["c", "a", "c"]),
        ("photos[*]", {"photos": ["c", "a"]}, ["c", "a"]),
        ("photos[*].all", {"photos": [{"all": ["a", "b"]}, {"all": "c"}]}, ["a", "b", "c"]),
        ('user."odd name"', {"user": {"odd name": "a"}}, ["a"]),
        ("user.photo", {"user": "a"}, []),
        ("user.photo", {"user": [{"photo": "a"}]}, []),
        ("photos", {"photos": []}, []),
    ],
)
def test_a_property_may_lie_deep_and_have_many(
    tmp_path: Path, folder: Path, property: str, record: dict[str, object], names: list[str]
) -> None:
    bodies = dict(photo(folder, name) for name in "abc")
    text = json.dumps(record)
    for name in "abc":
        text = text.replace(f'"{name}"', json.dumps(str(folder / name)))
    ingest(tmp_path / "lake", [START, person(1, **json.loads(text))], **settings(folder, {property: "location"}))
    expected = [(str(folder / name), bodies[str(folder / name)]) for name in names]
    kind = "application/octet-stream"
    assert rows(tmp_path / "lake") == [row(0, path, body, kind, property) for path, body in expected]


def test_properties_are_in_the_order_of_the_setting(tmp_path: Path, folder: Path) -> None:
    path, body = photo(folder, "a.jpg")
    properties = {"scan": "base64", "photo": "location"}
    ingest(tmp_path / "lake", [START, person(1, photo=path, scan="aGVsbG8")], **settings(folder, properties))
    assert rows(tmp_path / "lake") == [
        row(0, None, b"hello", "application/octet-stream", "scan"),
        row(0, path, body, "image/jpeg"),
    ]


def test_bytes_of_a_record_have_no_source(tmp_path: Path) -> None:
    text = base64.b64encode(b"a scan").decode()
    people = [person(1, scan=text), person(2, scan=f"data:image/png;base64,{text}"), person(3, scan=[text, None])]
    ingest(tmp_path, [START, *people], **settings("/photos", {"scan": "base64"}))
    kinds = ("application/octet-stream", "image/png", "application/octet-stream")
    assert rows(tmp_path) == [row(at, None, b"a scan", kind, "scan") for at, kind in enumerate(kinds)]
    assert list(objects(tmp_path).values()) == [b"a scan"]


def test_the_same_bytes_are_there_once(tmp_path: Path, folder: Path) -> None:
    paths = [photo(folder, f"{number}.jpg", b"the same")[0] for number in range(20)]
    people = [person(number, photo=path) for number, path in enumerate(paths)]
    for _ in range(2):
        ingest(tmp_path / "lake", [START, *people], **settings(folder))
    assert list(objects(tmp_path / "lake").values()) == [b"the same"]
    assert [each.source for each in rows(tmp_path / "lake")] == paths * 2
    is_sound(tmp_path / "lake")


@pytest.mark.parametrize("limit", [{"max_file_records": 1}, {"max_file_records": 7}, {"max_memory_bytes": 1 << 20}])
def test_rows_are_in_the_data_file_that_has_their_record(tmp_path: Path, folder: Path, limit: dict[str, int]) -> None:
    people, expected = [], []
    for number in range(50):
        path, body = photo(folder, f"{number}.jpg")
        has = number % 3 != 0
        people += [person(number, photo=path if has else None), activate(number)]
        expected += [row(2 * number, path, body, "image/jpeg")] * has
    ingest(tmp_path / "lake", [START, *people, state({"at": 50})], **settings(folder), **limit)
    assert kept(tmp_path / "lake") == people
    assert rows(tmp_path / "lake") == expected
    is_sound(tmp_path / "lake")


def test_many_rows_take_many_members(tmp_path: Path, folder: Path) -> None:
    paths = [photo(folder, f"{number:0200d}")[0] for number in range(LINES_OF_A_MEMBER)]
    ingest(tmp_path / "lake", [START, person(1, photo=paths)], **settings(folder))
    assert [each.source for each in rows(tmp_path / "lake")] == paths


def test_lines_that_only_the_standard_library_reads_have_files_too(tmp_path: Path, folder: Path) -> None:
    path, body = photo(folder, "a.jpg")
    odd = json.dumps({"id": 1, "photo": path, "nan": float("nan"), "lone": "\ud800", "long": 10**400})
    line = b'{"type":"RECORD","stream":"users","record":%b}' % odd.encode()
    twice = b'{"type":"RECORD","stream":"users","record":{"id":2,"photo":"/none","ph\\u006fto":%b}}'
    lines = [line, twice % json.dumps(path).encode()]
    ingest(tmp_path / "lake", [START, *lines], **settings(folder))
    assert kept(tmp_path / "lake") == lines
    assert rows(tmp_path / "lake") == [row(at, path, body, "image/jpeg") for at in range(2)]


DIGITS = "9" * 5000


@pytest.mark.parametrize(
    ("rest", "has_file"),
    [
        (f'"photo":PATH,"x":NaN,"n":{DIGITS}}}', [True]),
        (f'"photo":[PATH,{DIGITS}]}}', [True, False]),
        (f'"photo":PATH}},"time_extracted":{DIGITS}', [True]),
    ],
)
def test_so_have_lines_with_a_number_of_any_length(
    tmp_path: Path, folder: Path, rest: str, has_file: list[bool]
) -> None:
    path, body = photo(folder, "a.jpg")
    line = b'{"type":"RECORD","stream":"users","record":{"id":1,%b}' % rest.replace("PATH", json.dumps(path)).encode()
    ingest(tmp_path / "lake", [START, line], on_missing_file="record", **settings(folder))
    assert kept(tmp_path / "lake") == [line]
    expected = [row(0, path, body, "image/jpeg") if each else without(0, None) for each in has_file]
    assert rows(tmp_path / "lake") == expected


@pytest.mark.parametrize("name", ['odd "quotes"', "back\\slash", "tab\t", "\u00e9"])
def test_so_have_properties_whose_names_are_odd(tmp_path: Path, folder: Path, name: str) -> None:
    path, body = photo(folder, "a.jpg")
    property = json.dumps(name)
    ingest(tmp_path / "lake", [START, person(1, **{name: path})], **settings(folder, {property: "location"}))
    assert rows(tmp_path / "lake") == [row(0, path, body, "image/jpeg", property)]


def test_records_of_batch_files_have_files(tmp_path: Path, folder: Path) -> None:
    paths = [photo(folder, f"{number}.jpg")[0] for number in range(3)]
    batch = tmp_path / "batch.jsonl"
    batch.write_text("".join(json.dumps({"id": at, "photo": path}) + "\n" for at, path in enumerate(paths)))
    message = {"type": "BATCH", "stream": "users", "encoding": {"format": "jsonl"}, "manifest": [str(batch)]}
    ingest(tmp_path / "lake", [START, json.dumps(message).encode()], **settings(folder))
    assert [each.source for each in rows(tmp_path / "lake")] == paths


def test_records_that_stream_maps_make_have_files_by_what_is_kept_of_them(tmp_path: Path, folder: Path) -> None:
    path, body = photo(folder, "a.jpg")
    maps = {"users": {"__alias__": "people", "picture": "photo", "photo": "__NULL__"}}
    chosen = {
        "file_properties": {"people": {"picture": "location", "photo": "location"}},
        "file_sources": [str(folder)],
    }
    ingest(tmp_path / "lake", [START, person(1, photo=path)], stream_maps=maps, **chosen)
    assert rows(tmp_path / "lake", "people") == [row(0, path, body, "image/jpeg", "picture")]


def test_records_that_are_validated_have_files(tmp_path: Path, folder: Path) -> None:
    path, body = photo(folder, "a.jpg")
    ingest(tmp_path / "lake", [START, person(1, photo=path)], validate_records=True, **settings(folder))
    assert rows(tmp_path / "lake") == [row(0, path, body, "image/jpeg")]


def test_times_of_records_count_as_without_files(tmp_path: Path, folder: Path) -> None:
    path, _ = photo(folder, "a.jpg")
    lines = [
        json.dumps({**json.loads(person(at, photo=path)), "time_extracted": f"2026-01-0{at}T00:00:00Z"}).encode()
        for at in (3, 1, 2)
    ]
    ingest(tmp_path / "lake", [START, *lines], **settings(folder))
    (file,) = manifest(tmp_path / "lake").files
    assert (file.first, file.last) == ("2026-01-01T00:00:00.000000Z", "2026-01-03T00:00:00.000000Z")


@pytest.mark.parametrize("size", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 5 << 20])
def test_files_of_any_size_are_kept(tmp_path: Path, folder: Path, size: int) -> None:
    path, body = photo(folder, "a.bin", bytes(size))
    spool = tmp_path / "spool"
    spool.mkdir()
    ingest(tmp_path / "lake", [START, person(1, photo=path)], spool_dir=str(spool), **settings(folder))
    assert rows(tmp_path / "lake") == [row(0, path, body, "application/octet-stream")]
    assert list(objects(tmp_path / "lake").values()) == [body]
    assert list(spool.iterdir()) == []
    assert Path(path).read_bytes() == body


@pytest.mark.parametrize("kind", KINDS)
def test_every_manifest_store_keeps_the_rows(
    tmp_path: Path,
    folder: Path,
    kind: str,
    store_config: Callable[[str], dict[str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if kind == "merge":
        hasten(monkeypatch)
    people, expected = [], []
    for number in range(6):
        path, body = photo(folder, f"{number % 4}.jpg")
        people.append(person(number, photo=path))
        expected.append(row(number, path, body, "image/jpeg"))
    lines = [START, *people, state({"at": 6})]
    emitted = ingest(tmp_path / "lake", lines, max_file_records=2, **settings(folder), **store_config(kind))
    assert json.loads(emitted[-1]) == {"at": 6}
    assert manifest(tmp_path / "lake").store == kind
    assert rows(tmp_path / "lake") == expected
    is_sound(tmp_path / "lake")
    rebuilt = Lake.open(str(tmp_path / "lake")).stream(TAP, "users").rebuilt(lineage="rebuilt")
    assert [file.attached for file in rebuilt.files] == [file.attached for file in manifest(tmp_path / "lake").files]


def test_files_come_from_s3_and_go_there(tmp_path: Path, s3: S3Server) -> None:
    name = s3.create_bucket("attached-files")
    bodies = {f"s3://{name}/photos/{size}.png": bytes(size) for size in (0, 10, 2 << 20)}
    for source, body in bodies.items():
        s3.client().put_object(Bucket=name, Key=source.split("/", 3)[3], Body=body)
    people = [person(at, photo=source) for at, source in enumerate(bodies)]
    ingest(tmp_path / "lake", [START, *people], **settings(f"s3://{name}/photos"), **s3.config())
    expected = [row(at, source, body, "image/png") for at, (source, body) in enumerate(bodies.items())]
    assert rows(tmp_path / "lake") == expected
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in s3.environment().items():
            patch.setenv(variable, value)
        root = f"s3://{name}/lake"
        ingest(root, [START, *people], **settings(f"s3://{name}/photos"), **s3.config())
        assert rows(root) == expected
        is_sound(root)


def test_files_come_from_the_web(tmp_path: Path, https: HttpsServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(https.ca_file))
    https.pages["/a?token=secret"] = page(b"a photo", "Content-Type: image/webp")
    lines = [START, person(1, photo=https.url("/a?token=secret#x"))]
    ingest(tmp_path, lines, file_private_addresses=True, **settings(https.url("/")))
    assert rows(tmp_path) == [row(0, https.url("/a"), b"a photo", "image/webp")]

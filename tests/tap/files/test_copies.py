"""Copies of attached files: those of the records that are written, with their index, before the STATE."""

from __future__ import annotations

import json
import uuid
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from singerlake.errors import AccessDeniedError, BrokenFileError, MissingFileError, SettingError, StorageFullError
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from singerlake.upkeep.gc.apply import collect_now
from tap_singerlake import files
from tests.attached.lakes import SCHEMA, attach, sha256
from tests.everywhere.erasing import context_of, erase, vacuum
from tests.lakes import build_stream
from tests.servers.s3 import S3Server
from tests.tap.batch.support import batch_config
from tests.tap.expired.test_replay import expire as expire_flights
from tests.tap.runs import Output, make_tap, replay

A, B, C = b"photo a", b"photo b" * 100, b"photo c"
FILES = [[A], [B, A], [], [None], [C]]
"""Attached to the records with the ids 0 to 4, three records a data file."""


@pytest.fixture
def photos(lake: Lake) -> Lake:
    attach(lake, "tap-a", "a/b", FILES, file_size=3)
    return lake


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "copies"


def run(root: Path, out: Path | str, **options: Any) -> Output:
    return replay(root, include_files=str(out), **options)


def copied(out: Path) -> dict[str, bytes]:
    """The copies and what is in them, by their paths below the stream's folder."""
    folder = out / "a%2Fb"
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".jsonl")
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def place(body: bytes) -> str:
    return f"{sha256(body)[:2]}/{sha256(body)}"


def indexes(out: Path) -> dict[str, list[dict[str, Any]]]:
    """The lines of each index, by its name."""
    found = sorted((out / "a%2Fb").glob("*.jsonl"))
    return {path.name: [json.loads(line) for line in path.read_bytes().splitlines()] for path in found}


def offsets(out: Path) -> dict[str, list[int]]:
    return {name: [line["offset"] for line in lines] for name, lines in indexes(out).items()}


def test_each_file_is_copied_once_and_has_its_lines_in_an_index(photos: Lake, root: Path, out: Path) -> None:
    run(root, out)
    assert copied(out) == {place(body): body for body in (A, B, C)}
    known = {"property": "photo", "media_type": "image/jpeg"}

    def line(offset: int, body: bytes) -> dict[str, Any]:
        path = str(out / "a%2Fb" / place(body))
        found = {"offset": offset, "source": f"{offset}.jpg", "sha256": sha256(body), "bytes": len(body), "path": path}
        return known | found

    nothing = dict.fromkeys(("sha256", "bytes", "media_type", "path"))
    assert indexes(out) == {
        "0-2.jsonl": [line(0, A), line(1, B), line(1, A)],
        "3-4.jsonl": [{"offset": 3, "property": "photo", "source": "3.jpg", **nothing}, line(4, C)],
    }
    assert list(indexes(out)["0-2.jsonl"][0]) == [
        *("offset", "property", "source", "sha256", "bytes", "media_type", "path")
    ]


def test_the_messages_are_those_of_a_run_without(photos: Lake, root: Path, out: Path) -> None:
    assert run(root, out).text == replay(root).text


def test_a_stream_without_attached_files_has_no_folder(flights: Lake, root: Path, out: Path) -> None:
    assert run(root, out).text == replay(root).text
    assert not out.exists()


@pytest.mark.parametrize("unset", [None, "", " "])
def test_unset_nothing_is_copied(photos: Lake, root: Path, unset: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalStorage, "put", None)
    monkeypatch.setattr(LocalStorage, "upload", None)
    assert len(replay(root, include_files=unset).records()) == 5


def test_a_run_goes_on_behind_a_bookmark(photos: Lake, root: Path, out: Path) -> None:
    first = run(root, out, max_records=2)
    assert (copied(out).keys(), offsets(out)) == ({place(A), place(B)}, {"0-1.jsonl": [0, 1, 1]})
    second = run(root, out, state=first.state, max_records=1)
    assert offsets(out) == {"0-1.jsonl": [0, 1, 1]}, "the record at 2 has no file"
    run(root, out, state=second.state)
    assert offsets(out) == {"0-1.jsonl": [0, 1, 1], "3-4.jsonl": [3, 4]}
    assert place(C) in copied(out)


def test_each_state_follows_an_index(photos: Lake, root: Path, out: Path) -> None:
    run(root, out, state_every_records=1)
    assert offsets(out) == {"0-0.jsonl": [0], "1-1.jsonl": [1, 1], "3-3.jsonl": [3], "4-4.jsonl": [4]}


def test_all_is_there_when_the_state_is_written(
    photos: Lake, root: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tap = make_tap(root, include_files=str(out), state_every_records=2)
    seen: list[tuple[int, list[int], int]] = []
    monkeypatch.setattr(tap.message_writer, "write", lambda _: None)

    def look(state: Any) -> None:
        listed = sorted(chain.from_iterable(offsets(out).values()))
        seen.append((state["bookmarks"]["a/b"]["offset"], listed, len(copied(out))))

    monkeypatch.setattr(tap._state_writer, "write_state", look)
    tap.sync_all()
    assert seen[:3] == [(2, [0, 1, 1], 2), (3, [0, 1, 1], 2), (5, [0, 1, 1, 3, 4], 3)]


def test_a_version_that_is_not_replayed_is_not_copied(photos: Lake, root: Path, out: Path) -> None:
    other = {**SCHEMA, "title": "another version"}
    attach(photos, "tap-a", "a/b", [[b"of v2"]], schema=other, first_id=5)
    run(root, out, versions="v2")
    assert (copied(out), offsets(out)) == ({place(b"of v2"): b"of v2"}, {"5-5.jsonl": [5]})


def test_a_record_that_a_stream_map_takes_away_is_not_copied(photos: Lake, root: Path, out: Path) -> None:
    ran = run(root, out, stream_maps={"a/b": {"__filter__": "id >= 3"}})
    assert [record["id"] for record in ran.records()] == [3, 4]
    assert (copied(out).keys(), offsets(out)) == ({place(C)}, {"3-4.jsonl": [3, 4]})
    assert run(root, out / "none", stream_maps={"a/b": {"__filter__": "id > 9"}}).records() == []
    assert not (out / "none").exists()


def test_records_with_columns_of_the_lake_have_their_files(photos: Lake, root: Path, out: Path) -> None:
    run(root, out, include_lake_metadata=True)
    assert offsets(out) == {"0-2.jsonl": [0, 1, 1], "3-4.jsonl": [3, 4]}


def test_batches_have_their_files(photos: Lake, root: Path, out: Path, tmp_path: Path) -> None:
    run(root, out, batch_config=batch_config(tmp_path / "batches", batch_size=2))
    assert offsets(out) == {"0-1.jsonl": [0, 1, 1], "3-4.jsonl": [3, 4]}
    assert len(copied(out)) == 3


def test_a_file_that_is_there_is_left_and_one_of_another_size_is_not(photos: Lake, root: Path, out: Path) -> None:
    run(root, out)
    before = {path: (out / "a%2Fb" / path).stat().st_mtime_ns for path in copied(out)}
    (out / "a%2Fb" / place(B)).write_bytes(b"half")
    run(root, out)
    after = {path: (out / "a%2Fb" / path).stat().st_mtime_ns for path in copied(out)}
    assert {path for path in before if before[path] != after[path]} == {place(B)}
    assert copied(out)[place(B)] == B


@pytest.mark.parametrize("limit", [0, len(B) - 1, len(B)])
def test_large_files_pass_through_the_spool(
    photos: Lake, root: Path, out: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, limit: int
) -> None:
    (tmp_path / "spool").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "spool"))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(files, "IN_MEMORY", limit)
    run(root, out)
    assert copied(out) == {place(body): body for body in (A, B, C)}
    assert list((tmp_path / "spool").iterdir()) == []


def test_files_of_erased_records_are_not_copied(photos: Lake, root: Path, out: Path) -> None:
    erase(photos, "tap-a", "a/b", [1, 4], now=True)
    run(root, out)
    assert (copied(out).keys(), offsets(out)) == ({place(A)}, {"0-2.jsonl": [0], "3-3.jsonl": [3]})


def test_a_run_that_began_before_an_erasure_goes_on(
    photos: Lake, root: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle = files.FileCopies.settle

    def erased_meanwhile(self: files.FileCopies) -> None:
        erase(photos, "tap-a", "a/b", [1, 4])
        collect_now(context_of(photos, "tap-a", "a/b"))
        monkeypatch.setattr(files.FileCopies, "settle", settle)
        settle(self)

    monkeypatch.setattr(files.FileCopies, "settle", erased_meanwhile)
    run(root, out)
    assert place(B) not in copied(out)
    assert offsets(out)["0-2.jsonl"] == [0, 1], "the photo that record 0 has, too, is still there"


def test_files_of_expired_records_are_not_copied(lake: Lake, root: Path, out: Path) -> None:
    attach(lake, "tap-a", "flights", FILES, file_size=3)
    expire_flights(lake, 3, now=True)
    run(root, out)
    names = {path.name for path in (out / "flights").rglob("*") if path.is_file()}
    assert names == {sha256(C), "3-4.jsonl"}


def test_a_vacuumed_stream_has_the_same_files(photos: Lake, root: Path, out: Path) -> None:
    vacuum(photos, "tap-a", "a/b")
    run(root, out)
    assert offsets(out) == {"0-4.jsonl": [0, 1, 1, 3, 4]}
    assert len(copied(out)) == 3


def test_a_lost_object_ends_the_run_before_the_state(photos: Lake, root: Path, out: Path) -> None:
    photos.storage.delete("raw/tap-a/a%2Fb/_files/" + place(C))
    with pytest.raises(MissingFileError, match=f"attached to a record is not there; .*{sha256(C)}") as caught:
        run(root, out)
    ran: Output = caught.value.output  # type: ignore[attr-defined]
    assert [state["value"]["bookmarks"]["a/b"]["offset"] for state in ran.of("STATE")] == [3]
    assert offsets(out).keys() == {"0-2.jsonl"}


@pytest.mark.parametrize("limit", [0, files.IN_MEMORY])
def test_a_damaged_object_ends_the_run_and_is_not_copied(
    photos: Lake, root: Path, out: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    monkeypatch.setattr(files, "IN_MEMORY", limit)
    photos.storage.put("raw/tap-a/a%2Fb/_files/" + place(B), b"x" * len(B))
    with pytest.raises(BrokenFileError, match=f"not those that were attached.*{sha256(B)}") as caught:
        run(root, out)
    assert caught.value.output.of("STATE") == []  # type: ignore[attr-defined]
    assert place(B) not in copied(out)
    assert indexes(out) == {}


def test_a_full_disk_ends_the_run_before_the_state(
    photos: Lake, root: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = LocalStorage.put

    def full(self: LocalStorage, key: str, body: bytes, **more: Any) -> Any:
        if key.endswith(place(C)):
            raise StorageFullError("no space is left for the lake", hint="free space", lake_root=self.url)
        return put(self, key, body, **more)

    monkeypatch.setattr(LocalStorage, "put", full)
    with pytest.raises(
        StorageFullError, match=r"no space is left for include_files; .*include_files='.*copies'"
    ) as caught:
        run(root, out)
    assert [state["value"]["bookmarks"]["a/b"]["offset"] for state in caught.value.output.of("STATE")] == [3]  # type: ignore[attr-defined]


@pytest.mark.parametrize("operation", ["put", "head"])
def test_a_folder_without_permission_is_told_of(
    photos: Lake, root: Path, out: Path, monkeypatch: pytest.MonkeyPatch, operation: str
) -> None:
    def denied(self: LocalStorage, key: str, *_: Any, **__: Any) -> Any:
        raise AccessDeniedError(
            "permission denied in the lake's folder", hint="check its owner and mode, or change lake_root", key=key
        )

    monkeypatch.setattr(LocalStorage, operation, denied)
    with pytest.raises(
        AccessDeniedError, match=r"permission denied in the folder of include_files; .*or change include_files"
    ) as caught:
        run(root, out)
    assert caught.value.output.of("STATE") == []  # type: ignore[attr-defined]


def test_copies_go_to_s3_and_come_from_it(s3: S3Server, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "IN_MEMORY", len(A))
    bucket = s3.create_bucket(f"copies-{uuid.uuid4().hex[:12]}")
    settings = {
        "aws_access_key_id": s3.settings().access_key_id,
        "aws_secret_access_key": s3.settings().secret_access_key,
        "aws_region": s3.settings().region,
        "s3_endpoint_url": s3.endpoint_url,
    }
    in_s3 = Lake.open(f"s3://{bucket}/lake", s3.settings())
    attach(in_s3, "tap-a", "s", FILES, file_size=3)
    to = f"s3://{bucket}/copies"
    found = replay(in_s3.storage.url, include_files=to, **settings)
    assert len(found.records()) == 5
    listed = {
        each["Key"]: each["Size"] for each in s3.client().list_objects_v2(Bucket=bucket, Prefix="copies/")["Contents"]
    }
    assert {key: size for key, size in listed.items() if not key.endswith(".jsonl")} == {
        f"copies/s/{place(body)}": len(body) for body in (A, B, C)
    }
    index = s3.client().get_object(Bucket=bucket, Key="copies/s/0-2.jsonl")["Body"].read()
    assert json.loads(index.splitlines()[0])["path"] == f"{to}/s/{place(A)}"
    replay(in_s3.storage.url, include_files=str(out), **settings)
    assert (out / "s" / place(B)).read_bytes() == B


def test_streams_have_folders_of_their_own(photos: Lake, root: Path, out: Path) -> None:
    attach(photos, "tap-a", "c", [[A]])
    build_stream(photos, "tap-a", "d", SCHEMA, [{"id": 1}])
    run(root, out)
    assert {path.name for path in out.iterdir() if not path.name.startswith(".")} == {"a%2Fb", "c"}
    assert (out / "c" / place(A)).read_bytes() == A


@pytest.mark.parametrize(
    ("to", "message"),
    [
        ("{root}", "include_files is a place in the lake"),
        ("{root}/raw/copies", "include_files is a place in the lake"),
        ("file://{root}/copies", "include_files is a place in the lake"),
        ("{root}/../lake/copies", "include_files is a place in the lake"),
        ("http://example.com/copies", "include_files has an unknown scheme"),
        ("s3:/bucket", "include_files is not a complete s3 URL"),
        ("$FOLDER", "include_files"),
    ],
)
def test_a_place_that_cannot_be_is_refused_before_anything_is_written(
    photos: Lake, root: Path, to: str, message: str
) -> None:
    with pytest.raises(SettingError, match=message) as caught:
        run(root, to.format(root=root))
    assert caught.value.output.text == b""  # type: ignore[attr-defined]


def test_a_link_into_the_lake_is_refused(photos: Lake, root: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(root / "raw")
    with pytest.raises(SettingError, match="include_files is a place in the lake"):
        run(root, tmp_path / "link" / "copies")
    assert len(run(root, f"{root}-copies").records()) == 5

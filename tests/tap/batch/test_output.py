"""BATCH messages in place of RECORD: the same records in the same order, and STATE only behind whole files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from singerlake.errors import AccessDeniedError, SettingError, StorageFullError
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from tap_singerlake.batch.output import BatchOutput
from tests.lakes import activate_version_line, build_stream, record_line
from tests.tap.batch.support import bare, batch_config, both, path_of, raw_records, unpacked
from tests.tap.process.test_passthrough import ODD_LINES
from tests.tap.runs import V1, V2, Output, replay


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "batch files"


def without_states(messages: list[Any]) -> list[Any]:
    return [message for message in messages if not isinstance(message, dict) or message["type"] != "STATE"]


def of(stream: str, messages: list[Any]) -> list[Any]:
    return [message[1] for message in messages if isinstance(message, tuple) and message[0] == stream]


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_the_records_are_those_of_a_run_by_record(flights: Lake, root: Path, out: Path, compression: str) -> None:
    config = batch_config(f"file://{out}", format="jsonl", compression=compression)
    records, batches = both(root, out, batch_config=config)
    assert batches.of("RECORD") == []
    assert unpacked(batches) == bare(records)
    assert {json.dumps(message["encoding"]) for message in batches.of("BATCH")} == {
        json.dumps({"format": "jsonl", "compression": compression})
    }
    assert all(path_of(message["manifest"][0]).parent == out for message in batches.of("BATCH"))


def test_a_batch_is_a_data_file_and_its_state_follows_it(flights: Lake, root: Path, out: Path) -> None:
    messages = replay(root, batch_config=batch_config(out)).messages
    assert [message["type"] for message in messages] == [
        *("SCHEMA", "BATCH", "STATE", "BATCH", "STATE", "BATCH", "STATE"),
        *("SCHEMA", "BATCH", "STATE"),
    ]
    files = Lake.open(str(root)).stream("tap-a", "flights").snapshot().files
    sizes = [len(raw_records(message)) for message in messages if message["type"] == "BATCH"]
    assert sizes == [file.messages for file in files]
    offsets = [m["value"]["bookmarks"]["flights"]["offset"] for m in messages if m["type"] == "STATE"]
    assert offsets == [file.end for file in files]


def test_records_are_cut_out_as_the_bytes_that_they_are(lake: Lake, root: Path, out: Path) -> None:
    lines = [line for line in ODD_LINES if b"ACTIVATE" not in line]
    build_stream(lake, "tap-a", "odd", V1, lines, member_size=2)
    kept = [
        line for message in replay(root, batch_config=batch_config(out)).of("BATCH") for line in raw_records(message)
    ]
    assert len(kept) == len(lines)
    assert all(record in line for record, line in zip(kept, lines, strict=True))
    assert [json.dumps(json.loads(record)) for record in kept] == [
        json.dumps(json.loads(line)["record"]) for line in lines
    ]


def test_a_line_of_fifty_megabytes_and_many_odd_ones_are_cut_whole(lake: Lake, root: Path, out: Path) -> None:
    long = record_line("s", {"text": "x" * 50_000_000})
    odd = b'{"type":"RECORD","stream":"s","record":{"n":NaN,"a":1,"a":2}}'
    build_stream(lake, "tap-a", "s", V1, [long, *[odd] * 5000, record_line("s", {"id": 2})], file_size=10_000)
    (message,) = replay(root, batch_config=batch_config(out)).of("BATCH")
    first, *middle, last = raw_records(message)
    assert first == b'{"text": "%b"}' % (b"x" * 50_000_000)
    assert middle == [b'{"n":NaN,"a":1,"a":2}'] * 5000
    assert last == b'{"id": 2}'


def test_a_new_schema_an_activation_and_another_version_end_a_batch(lake: Lake, root: Path, out: Path) -> None:
    lines = [
        record_line("s", {"id": 1}, version=1, time_extracted="2026-01-01T00:00:00Z"),
        record_line("s", {"id": 2}, version=1, time_extracted="2026-01-02T00:00:00Z"),
        record_line("s", {"id": 3}, version=2),
        activate_version_line("s", 2),
        record_line("s", {"id": 4}, version=2),
        record_line("s", {"id": 5}),
    ]
    build_stream(lake, "tap-a", "s", V1, lines)
    build_stream(lake, "tap-a", "s", V2, [{"id": 6}])
    messages = replay(root, batch_config=batch_config(out)).messages
    told = [
        (
            m["type"],
            *(
                ([len(raw_records(m))] + [m.get(n) for n in ("version", "time_extracted")])
                if m["type"] == "BATCH"
                else ()
            ),
        )
        for m in messages
    ]
    assert told == [
        ("SCHEMA",),
        ("BATCH", 2, 1, "2026-01-02T00:00:00Z"),
        ("BATCH", 1, 2, None),
        ("ACTIVATE_VERSION",),
        ("BATCH", 1, 2, None),
        ("BATCH", 1, None, None),
        ("STATE",),
        ("SCHEMA",),
        ("BATCH", 1, None, None),
        ("STATE",),
    ]


@pytest.mark.parametrize(("size", "every", "batches"), [(40, None, [40, 40, 20] * 3), (100, 30, [30, 30, 30, 10] * 3)])
def test_a_batch_has_as_many_records_as_it_may_have(
    lake: Lake, root: Path, out: Path, size: int, every: int | None, batches: list[int]
) -> None:
    build_stream(lake, "tap-a", "s", V1, [{"id": number} for number in range(300)], file_size=100)
    more = {} if every is None else {"state_every_records": every}
    found = replay(root, batch_config=batch_config(out, batch_size=size), **more)
    assert [len(raw_records(message)) for message in found.of("BATCH")] == batches
    assert [record["id"] for _, record in without_states(unpacked(found))[1:]] == list(range(300))


def test_a_run_goes_on_where_the_one_before_ended(lake: Lake, root: Path, out: Path) -> None:
    build_stream(lake, "tap-a", "s", V1, [{"id": number} for number in range(100)], file_size=30, member_size=7)
    ids: list[int] = []
    state: dict[str, Any] | None = None
    for limit in (17, 1, 60, None):
        found = replay(root, state=state, batch_config=batch_config(out), **({"max_records": limit} if limit else {}))
        part = [record["id"] for _, record in without_states(unpacked(found))[1:]]
        assert limit is None or len(part) == limit
        ids, state = ids + part, found.state
    assert ids == list(range(100))
    assert [message["type"] for message in replay(root, state=state, batch_config=batch_config(out)).messages] == [
        "STATE"
    ]


def test_maps_selection_flattening_and_lake_metadata_are_in_the_files(lake: Lake, root: Path, out: Path) -> None:
    schema = {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "in": {"type": "object", "properties": {"a": {"type": "integer"}}}},
    }
    build_stream(lake, "tap-a", "s", schema, [{"id": n, "in": {"a": n}} for n in range(5)], key_properties=["id"])
    for options in (
        {"stream_maps": {"s": {"double": "id * 2", "__else__": None, "id": "id"}}},
        {"stream_maps": {"s": {"__filter__": "id > 2"}, "copy": {"__source__": "s", "id": "id"}}},
        {"flattening_enabled": True, "flattening_max_depth": 1},
        {"include_lake_metadata": True},
    ):
        records, batches = both(root, out, **options)
        assert batches.of("RECORD") == []
        wanted, found = bare(records), unpacked(batches)
        for stream in {each[0] for each in wanted if isinstance(each, tuple)}:
            # Of several streams that a map makes of one, each has batches of its own.
            assert of(stream, found) == of(stream, wanted)
        assert [each for each in found if isinstance(each, dict)] == [each for each in wanted if isinstance(each, dict)]


@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_parquet_has_the_same_records(lake: Lake, root: Path, out: Path, compression: str) -> None:
    given = [{"id": 1, "name": "a", "list": [1, 2]}, {"id": 2, "at": {"x": 1.5}}, {"id": 3, "name": None}]
    build_stream(lake, "tap-a", "s", {"properties": {"id": {}}}, given)
    (message,) = replay(root, batch_config=batch_config(out, format="parquet", compression=compression)).of("BATCH")
    assert message["encoding"] == {"format": "parquet", "compression": compression}
    path = path_of(message["manifest"][0])
    names = ("id", "name", "list", "at")
    assert pq.read_table(path).to_pylist() == [{name: each.get(name) for name in names} for each in given]
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == (
        "GZIP" if compression == "gzip" else "SNAPPY"
    )


@pytest.mark.parametrize("values", [(1, "a"), (2**70, 1), ({"a": 1}, [1]), ("\ud800", "a")])
def test_records_without_common_types_are_no_parquet(
    lake: Lake, root: Path, out: Path, values: tuple[Any, Any]
) -> None:
    build_stream(lake, "tap-a", "s", {"properties": {}}, [{"x": value} for value in values])
    with pytest.raises(
        SettingError, match=r"do not fit into columns of parquet.*format of batch_config to jsonl"
    ) as met:
        replay(root, batch_config=batch_config(out, format="parquet"))
    assert met.value.output.of("STATE") == []  # type: ignore[attr-defined]


def test_names_of_streams_lead_nowhere(lake: Lake, root: Path, out: Path) -> None:
    names = ["../../x", "a/b", "..", "%2e%2e", "ü 日\n", "\ud800", "x" * 150, "-rf", "a'b\"c$d`e"]
    for name in names:
        build_stream(lake, "tap-a", name, V1, [{"id": 1}])
    found = replay(root, batch_config=batch_config(out, prefix="runs/today-"))
    assert sorted(message["stream"] for message in found.of("BATCH")) == sorted(names)
    files = [path_of(message["manifest"][0]) for message in found.of("BATCH")]
    assert {file.parent for file in files} == {out / "runs"}
    assert len(set(files)) == len(names)
    assert all(file.name.startswith("today-singerlake-batch-") and len(file.name) < 130 for file in files)
    assert all(
        file.name.replace("-", "").replace("_", "").replace(".", "").isalnum() and file.name.isascii() for file in files
    )


class TestFaults:
    @pytest.fixture
    def stored(self, lake: Lake) -> Lake:
        build_stream(lake, "tap-a", "s", V1, [{"id": number} for number in range(100)], file_size=20)
        return lake

    def whole(self, output: Output, root: Path, out: Path) -> None:
        """What a run that failed said holds together with a run from its STATE."""
        messages = output.messages
        offset = output.state["bookmarks"]["s"]["offset"] if output.state else 0
        before_state = messages[: max((n for n, m in enumerate(messages) if m["type"] == "STATE"), default=0)]
        assert sum(len(raw_records(m)) for m in before_state if m["type"] == "BATCH") == offset
        rest = replay(root, state=output.state or None, batch_config=batch_config(out))
        ids = [record["id"] for _, record in without_states(unpacked(rest))[1:]]
        assert ids == list(range(offset, 100))

    @pytest.mark.parametrize("nth", [1, 2, 5])
    def test_an_upload_that_fails_holds_its_batch_and_all_after_it_back(
        self, stored: Lake, root: Path, out: Path, nth: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        upload = LocalStorage.upload

        def fail(self: LocalStorage, key: str, path: Path) -> int:
            if f"-{nth:06d}-" in key:
                raise StorageFullError("no space is left")
            return upload(self, key, path)

        with monkeypatch.context() as patch:
            patch.setattr(LocalStorage, "upload", fail)
            with pytest.raises(StorageFullError) as met:
                replay(root, batch_config=batch_config(out))
        output: Output = met.value.output  # type: ignore[attr-defined]
        assert len(output.of("BATCH")) == len(output.of("STATE")) == nth - 1
        self.whole(output, root, out)

    @pytest.mark.parametrize("step", ["add", "finish"])
    def test_a_local_disk_that_is_full_ends_the_run(
        self, stored: Lake, root: Path, out: Path, step: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from tap_singerlake.batch.output import LinesFile

        done, calls = getattr(LinesFile, step), []

        def fail(self: LinesFile, *arguments: Any) -> None:
            calls.append(step)
            if len(calls) == 3:
                raise StorageFullError("no space is left")
            done(self, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(LinesFile, step, fail)
            with pytest.raises(StorageFullError) as met:
                replay(root, batch_config=batch_config(out))
        self.whole(met.value.output, root, out)  # type: ignore[attr-defined]

    def test_a_root_that_may_not_be_written_is_an_error_that_names_it(
        self, stored: Lake, root: Path, out: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def deny(self: LocalStorage, key: str, path: Path) -> int:
            raise AccessDeniedError("permission denied in the lake's folder", lake_root=self.url)

        with monkeypatch.context() as patch:
            patch.setattr(LocalStorage, "upload", deny)
            with pytest.raises(AccessDeniedError, match="batch files"):
                replay(root, batch_config=batch_config(out))

    def test_nothing_is_left_of_the_spool(
        self, stored: Lake, root: Path, out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        spool = tmp_path / "spool"
        spool.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(spool))
        replay(root, batch_config=batch_config(out))
        assert list(spool.iterdir()) == []

        def stop(self: BatchOutput, bookmark: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(BatchOutput, "checkpoint", stop)
        with pytest.raises(KeyboardInterrupt):
            replay(root, batch_config=batch_config(out))
        assert list(spool.iterdir()) == []

"""A stream as Arrow batches, without an engine: the same rows and the same errors as with one."""

from __future__ import annotations

import gzip
import logging
from datetime import UTC, date, datetime
from pathlib import Path

import polars
import pyarrow as pa
import pytest

from singerlake.arrow import scan
from singerlake.errors import (
    BrokenFileError,
    LineageChangedError,
    MissingFileError,
    SettingError,
    UnknownNameError,
    ValueDoesNotFitError,
)
from singerlake.format import layout
from singerlake.lake import Lake
from singerlake.stream import LakeStream
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from tests.lakes import activate_version_line, build_stream, record_line

pytestmark = pytest.mark.usefixtures("either_reader")

V1 = {
    "properties": {
        "id": {"type": "integer"},
        "at": {"type": "string", "format": "date-time"},
        "on": {"type": "string", "format": "date"},
        "price": {"type": "string", "format": "singer.decimal", "precision": 9, "scale": 2},
        "tags": {"type": "array", "items": {"type": "string"}},
        "who": {"type": "object", "properties": {"name": {"type": "string"}}},
        "ok": {"type": "boolean"},
        "any": {},
    }
}
V2 = {"properties": {"id": {"type": "number"}, "extra": {"type": "string"}}}


@pytest.fixture
def stream(tmp_path: Path) -> LakeStream:
    """Offsets 0 to 9 of v1 in two files, an ACTIVATE_VERSION and a record of v2."""
    lake = Lake.open(str(tmp_path / "lake"))
    at = "2026-01-01T00:00:00Z"
    build_stream(lake, "t", "s", V1, [{"id": n, "at": at, "any": {"n": n}} for n in range(10)], file_size=6)
    lines = [activate_version_line("s", 1), record_line("s", {"id": 1.5, "extra": "x"})]
    build_stream(lake, "t", "s", V2, lines)
    return lake.stream("t", "s")


def test_types_are_arrow_s_own(stream: LakeStream) -> None:
    record = {
        "id": 7,
        "at": "2026-01-01T01:00:00+01:00",
        "on": "2026-02-28",
        "price": "12.50",
        "tags": ["a", None],
        "who": {"name": "n"},
        "ok": True,
        "any": [1],
    }
    build_stream(stream.lake, "t", "typed", V1, [record])
    reader = stream.lake.stream("t", "typed").to_arrow()
    assert reader.schema == pa.schema(
        [
            ("id", pa.int64()),
            ("at", pa.timestamp("us", "UTC")),
            ("on", pa.date32()),
            ("price", pa.decimal128(9, 2)),
            ("tags", pa.list_(pa.field("element", pa.string()))),
            ("who", pa.struct([("name", pa.string())])),
            ("ok", pa.bool_()),
            ("any", pa.string()),
            ("_rescued_data", pa.string()),
        ]
    )
    (row,) = reader.read_all().to_pylist()
    assert row["at"] == datetime(2026, 1, 1, tzinfo=UTC)
    assert (row["on"], str(row["price"]), row["tags"]) == (date(2026, 2, 28), "12.50", ["a", None])
    assert (row["who"], row["ok"], row["any"], row["_rescued_data"]) == ({"name": "n"}, True, "[1]", None)


def test_rows_come_in_offset_order_and_what_is_wanted_alone(stream: LakeStream) -> None:
    found = stream.to_arrow(columns=["_singerlake_offset", "id"], metadata=True).read_all()
    assert found.column_names == ["_singerlake_offset", "id"]
    assert found.column(0).to_pylist() == [*range(10), 11]
    assert stream.to_arrow(from_version="v2").read_all().column("extra").to_pylist() == ["x"]
    assert stream.to_arrow(versions=["v1"]).read_all().num_rows == 10
    part = stream.to_arrow(from_offset=3, to_offset=7, columns=["id"])
    assert part.read_all().column("id").to_pylist() == [3, 4, 5, 6]
    everything = stream.to_arrow().read_all()
    assert everything.column("id").to_pylist() == [*map(float, range(10)), 1.5]


def test_offsets_of_another_lineage_are_refused(stream: LakeStream) -> None:
    lineage = stream.snapshot().lineage
    assert stream.to_arrow(from_offset=9, lineage=lineage).read_all().num_rows == 2
    key = layout.manifest_key("t", "s")
    stream.lake.storage.delete(key)
    with pytest.raises(
        LineageChangedError, match=f"'{lineage}', but the manifest is lost, so the stream's lineage is not known; run"
    ):
        stream.to_arrow(from_offset=9, lineage=lineage)
    repair_stream(
        StreamContext(stream.lake.storage, "t", "s", stream.lake.clock, stream.lake.ids, stream.store()),
        RepairOptions(),
    )
    now = stream.snapshot().lineage
    with pytest.raises(LineageChangedError, match=f"option 'lineage' is '{lineage}', and the stream's is '{now}'"):
        stream.to_arrow(from_offset=9, lineage=lineage)
    assert stream.to_arrow(from_offset=9, lineage=now).read_all().num_rows == 2


def test_it_is_a_snapshot_of_the_moment_it_is_asked_for(stream: LakeStream) -> None:
    reader = stream.to_arrow(columns=["id"])
    build_stream(stream.lake, "t", "s", V2, [{"id": 5}])
    assert reader.read_all().num_rows == 11
    assert stream.to_arrow(columns=["id"]).read_all().num_rows == 12


def test_nothing_is_opened_before_the_first_batch(stream: LakeStream) -> None:
    reader = stream.to_arrow(columns=["id"])
    file = stream.snapshot().files[0]
    (Path(stream.lake.storage.url) / (stream.prefix + file.path)).unlink()
    with pytest.raises(MissingFileError, match="loaded before gc; load it again"):
        reader.read_all()


@pytest.mark.parametrize("size", [1, 60, 200, 1 << 20])
def test_chunks_of_any_size_hold_the_same(stream: LakeStream, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = stream.to_arrow(metadata=True).read_all()
    monkeypatch.setattr(scan, "CHUNK_BYTES", size)
    assert stream.to_arrow(metadata=True).read_all() == whole


def test_modes(stream: LakeStream, caplog: pytest.LogCaptureFixture) -> None:
    build_stream(stream.lake, "t", "odd", V1, [{"id": 1}, {"id": "x"}, {"id": 3, "on": "soon"}])
    odd = stream.lake.stream("t", "odd")
    assert odd.to_arrow().read_all().column("_rescued_data").to_pylist() == [None, '{"id":"x"}', '{"on":"soon"}']
    assert "t/odd: 2 rows have null in place of a value that does not fit its column" in caplog.text
    with caplog.at_level(logging.WARNING):
        assert odd.to_arrow(mode="dropmalformed").read_all().column("id").to_pylist() == [1]
    assert "t/odd: left out 2 rows" in caplog.text
    with pytest.raises(ValueDoesNotFitError, match="line=3, offset=1"):
        odd.to_arrow(mode="FAILFAST").read_all()


def test_a_file_that_was_altered_or_holds_less_than_the_manifest_says_is_an_error(stream: LakeStream) -> None:
    file = stream.snapshot().files[0]
    path = Path(stream.lake.storage.url) / (stream.prefix + file.path)
    body = path.read_bytes()
    lines = gzip.decompress(body).splitlines(keepends=True)
    start = file.members[0][0]
    for kept, said in [(lines[1:-1], "the file holds 5"), ([*lines[1:], lines[-1]], "the file holds more")]:
        path.write_bytes(body[:start] + gzip.compress(b"".join(kept)))
        with pytest.raises(BrokenFileError, match=said):
            stream.to_arrow(columns=["id"]).read_all()
    path.write_bytes(body[:-9])
    with pytest.raises(BrokenFileError, match="cut short"):
        stream.to_arrow(columns=["id"]).read_all()


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"columns": ["nope"]}, UnknownNameError, "no column 'nope'"),
        ({"columns": []}, SettingError, "'columns' names nothing"),
        ({"columns": "id"}, SettingError, r"columns is one text; give a list of names, as \['id'\]"),
        ({"versions": "v1"}, SettingError, "versions is one text"),
        ({"from_offset": "1"}, SettingError, "'from_offset' is not a whole number"),
        ({"metadata": "false"}, SettingError, "metadata is neither True nor False"),
        ({"mode": None}, SettingError, "option 'mode' is not one of PERMISSIVE"),
        (
            {"columns": ["_singerlake_offset"]},
            UnknownNameError,
            "set option 'metadata' to true to have it; there are: id",
        ),
        ({"columns": ["_rescued_data"], "mode": "FAILFAST"}, UnknownNameError, "it is there in the mode PERMISSIVE"),
        ({"from_version": "v9"}, UnknownNameError, "no version 'v9'; it has: v1"),
        ({"mode": "lax"}, SettingError, "option 'mode' is not one of PERMISSIVE"),
        ({"lineage": " "}, SettingError, "'lineage' names nothing; set it to the stream's lineage"),
        ({"from_offset": -1}, SettingError, "'from_offset' is negative"),
        ({"to_offset": 13}, SettingError, "'to_offset' is 13, the stream ends at 12"),
        ({"from_offset": 0, "from_version": "v1"}, SettingError, "exclude each other"),
    ],
)
def test_a_wrong_option_is_told_at_once(stream: LakeStream, options: dict[str, object], error: type, said: str) -> None:
    with pytest.raises(error, match=said):
        stream.to_arrow(**options)  # type: ignore[arg-type]


def test_a_range_without_messages_is_an_empty_table(stream: LakeStream) -> None:
    for options in ({"to_offset": 0}, {"from_offset": 12}, {"from_offset": 12, "to_offset": 12}):
        found = stream.to_arrow(**options).read_all()  # type: ignore[arg-type]
        assert (found.num_rows, found.column_names[0], found.column_names[-2]) == (0, "id", "extra")
    assert "extra" not in stream.to_arrow(from_version="v2", versions=["v1"]).schema.names


def test_polars_takes_what_has_no_rows(stream: LakeStream) -> None:
    columns = stream.to_arrow().schema.names
    assert polars.from_arrow(stream.to_arrow(from_offset=stream.snapshot().next_offset)).columns == columns  # type: ignore[union-attr]


def test_a_property_whose_name_has_no_utf8_is_kept_as_an_undeclared_one(tmp_path: Path) -> None:
    inner = {"type": "object", "properties": {"\ud800": {"type": "integer"}, "b": {"type": "integer"}}}
    properties = {"id": {"type": "integer"}, "\udc00x": {}, "a": inner}
    lake = Lake.open(str(tmp_path))
    build_stream(lake, "t", "s", {"properties": properties}, [{"id": 1, "\udc00x": 2, "a": {"\ud800": 3, "b": 4}}])
    assert lake.stream("t", "s").to_arrow().read_all().to_pylist() == [
        {"id": 1, "a": {"b": 4}, "_rescued_data": '{"\\udc00x":2,"a":{"\\ud800":3}}'}
    ]


def test_an_empty_stream_says_so(stream: LakeStream) -> None:
    stream.lake.stream("t", "empty").writer(writer_id="w").open()
    with pytest.raises(UnknownNameError, match="no data to take a schema from"):
        stream.lake.stream("t", "empty").to_arrow()


def test_paths_of_hostile_names_are_read(stream: LakeStream) -> None:
    name = "../../etc:passwd?/%2e"
    build_stream(stream.lake, "t", name, V2, [{"id": 1}])
    assert stream.lake.stream("t", name).to_arrow(columns=["id"]).read_all().num_rows == 1
    assert layout.stream_prefix("t", name).count("/") == 3


def test_bytes_that_were_exchanged_for_others_of_the_same_records_are_an_error(stream: LakeStream) -> None:
    file = stream.snapshot().files[0]
    path = Path(stream.lake.storage.url) / (stream.prefix + file.path)
    body = path.read_bytes()
    start = file.members[0][0]
    raw = gzip.decompress(body[start:])
    for level in (0, 9):
        path.write_bytes(body[:start] + gzip.compress(raw, level))
        with pytest.raises(BrokenFileError, match=r"its bytes are not those|more|cut short|damaged"):
            stream.to_arrow(columns=["id"]).read_all()
    path.write_bytes(body)
    assert stream.to_arrow(columns=["id"]).read_all().num_rows == 11

"""Lakes of every released format stay readable, byte for byte, and the format document tells the truth about them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from singerlake.format.state import bookmark as bookmarks
from singerlake.format.state import selection
from singerlake.lake import Lake
from tests.format.state.test_fold import check_log

HERE = Path(__file__).parent
LAKE = HERE / "format1" / "lake"
DOCUMENT = HERE.parents[1] / "shared" / "docs" / "format" / "reading.md"

FLIGHTS = [
    b'{"type":"RECORD","stream":"flights","record":{"id":1,"carrier":"UA"},"time_extracted":"2026-01-01T00:00:00.001000Z"}\n',
    b'{"type":"RECORD","stream":"flights","record":{"id":2,"carrier":"AA"},"time_extracted":"2026-01-01T00:00:00.001000Z"}\n',
    b'{"type":"RECORD","stream":"flights","record":{"id":3,"carrier":"B6"},"time_extracted":"2026-01-01T00:00:00.001000Z"}\n',
    b'{"type":"RECORD","stream":"flights","record":{"id":4,"carrier":null,"delay":-1.5},"time_extracted":"2026-01-01T00:00:00.001000Z"}\n',
    b'{"type": "ACTIVATE_VERSION", "stream": "flights", "version": 7}\n',
    b'{"type":"RECORD","stream":"flights","record":{"id":5,"delay":NaN},"version":7}\r\n',
    b'{"type":"RECORD","stream":"flights","record":{"id":6,"carrier":"DL"},"time_extracted":"2026-01-01T00:00:00.001000Z"}\n',
]
ODD = "../a b/ü"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A copy, so that no reader can change the original unseen."""
    shutil.copytree(LAKE, tmp_path / "lake")
    return Lake.open(str(tmp_path / "lake")).require()


def read(lake: Lake, stream: str, offset: int = 0) -> list[bytes]:
    found = lake.stream("tap-example", stream)
    parts = selection.select(found.snapshot(), offset=offset)
    return b"".join(block.data for part in parts for block in found.read(part)).splitlines(keepends=True)


def test_taps_streams_and_annotations_are_found(lake: Lake) -> None:
    assert lake.taps() == ["tap-example"]
    assert lake.streams("tap-example") == [ODD, "empty", "flights"]
    metadata = lake.root_metadata()
    assert metadata is not None
    assert metadata.taps["tap-example"].owner == "Ada"
    assert [entry["stream"] for entry in lake.catalogue("tap-example")["streams"]] == [ODD, "flights"]


@pytest.mark.parametrize("offset", range(len(FLIGHTS) + 1))
def test_every_message_is_read_as_it_was_written_from_any_offset(lake: Lake, offset: int) -> None:
    assert read(lake, "flights", offset) == FLIGHTS[offset:]


def test_a_stream_of_odd_names_and_values_is_read(lake: Lake) -> None:
    surrogate, large = (json.loads(line)["record"] for line in read(lake, ODD))
    assert surrogate == {"a": "\ud800", "b": ["x", 1]}
    assert large == {"a": 12345678901234567890123, "b": ["SCHEMA"]}
    assert read(lake, "empty") == []


def test_bookmarks_of_replaced_files_still_resume(lake: Lake) -> None:
    flights = lake.stream("tap-example", "flights")
    manifest = flights.snapshot()
    for original, line, offset in (("0000000000000006", 1, 1), ("000000000000000f", 1, 3)):
        for lineage in (manifest.lineage, "another"):
            bookmark = bookmarks.Bookmark(lineage=lineage, offset=offset, file=original, line=line)
            assert flights.resume(manifest, bookmark) == offset


def test_without_its_manifest_the_stream_is_read_from_its_files_alone(
    lake: Lake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "lake/raw/tap-example/flights/manifest.json").unlink()
    assert read(lake, "flights") == FLIGHTS
    assert "no manifest" in caplog.text
    rebuilt = lake.stream("tap-example", "flights").snapshot()
    check_log(rebuilt)
    assert rebuilt.lineage is None
    assert not (tmp_path / "lake/raw/tap-example/flights/manifest.json").exists()


def test_the_worked_example_of_the_document_is_the_golden_file() -> None:
    text = DOCUMENT.read_text()
    (path,) = re.findall(r"^    (raw/tap-example/\S+\.singer\.gz)$", text, re.MULTILINE)
    dump = re.search(r"^```\n(0{8}: .*?)^```", text, re.MULTILINE | re.DOTALL)
    assert dump is not None
    documented = bytes.fromhex("".join(line[10:49] for line in dump.group(1).splitlines()))
    assert documented == (LAKE / path).read_bytes()
    listed = re.search(r"^```json\n(\{.*?^\})", text, re.MULTILINE | re.DOTALL)
    assert listed is not None
    manifest = json.loads((LAKE / "raw/tap-example/flights/manifest.json").read_text())
    assert json.loads(listed.group(1)) in manifest["files"]

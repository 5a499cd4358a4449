"""A stream without ``manifest.json`` beside a log: the log says whose it is, whatever ``singerlake.json`` says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from singerlake.errors import ForeignManifestError, SettingError
from singerlake.format import layout
from singerlake.lake import Lake

SUITE = Path(__file__).parents[2] / "golden" / "suite"
CASES = {
    "log-without-its-manifest": ("log", True),
    "log-without-any-metadata": ("log", True),
    "migrated-to-merge-and-without-its-manifest": ("merge", True),
    "log-closed-for-lockfile-and-without-its-manifest": ("lockfile", False),
    "log-trimmed-to-its-close-and-without-its-manifest": ("lockfile", False),
    "merge-closed-for-lockfile-and-without-its-manifest": ("lockfile", False),
    "migrated-to-a-database-and-without-its-manifest": ("postgres", False),
}
"""The store in which the stream is now, and whether its state is in the log."""


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(params=["lockfile", "log", "merge", "postgres", None])
def lake(case: str, request: pytest.FixtureRequest, tmp_path: Path) -> Lake:
    """With another manifest store for new streams, or without ``singerlake.json``."""
    shutil.copytree(SUITE / case / "lake", tmp_path / "lake")
    path = tmp_path / "lake" / layout.root_metadata_key()
    path.unlink(missing_ok=True)
    if request.param:
        path.write_text(json.dumps({"format": 1, "lake_id": "l", "manifest_store": request.param, "taps": {}}))
    return Lake.open(str(tmp_path / "lake"))


def test_readers_and_writers_go_on_where_the_log_says(case: str, lake: Lake) -> None:
    kind, followed = CASES[case]
    messages = json.loads((SUITE / case / "expected.json").read_text())["messages"]
    stream = lake.stream("t", "s")
    assert stream.kind() == kind
    state = stream.snapshot()
    assert (state.next_offset, state.lineage is not None) == (len(messages), followed)
    if kind == "postgres":
        with pytest.raises(SettingError, match="postgres_url"):
            stream.writer(writer_id="w").open()
        return
    opened = stream.writer(writer_id="w").open()
    assert (opened.store, opened.next_offset) == (kind, len(messages))
    assert (opened.lineage == state.lineage) is followed


@pytest.mark.parametrize("body", [b"", b"{}", b'{"transaction":{"change":{"kind":"rebase"}}}', b"[1]", b"\xff"])
def test_a_log_that_cannot_be_read_says_nothing(tmp_path: Path, body: bytes) -> None:
    lake = Lake.open(str(tmp_path))
    stream = lake.stream("t", "s")
    lake.storage.put(layout.log_prefix("t", "s") + layout.log_name(0), body)
    assert stream.kind() is None
    lake.storage.put(layout.log_prefix("t", "s") + layout.LOG_FLOOR, body)
    assert stream.kind() is None


def of_another_tap(lake: Lake) -> None:
    """Have the snapshot that the log's floor names be of another tap."""
    log = layout.log_prefix("t", "s")
    floor = lake.storage.get(log + layout.LOG_FLOOR)
    assert floor is not None
    key = layout.stream_prefix("t", "s") + json.loads(floor.body)["snapshot"]
    stored = lake.storage.get(key)
    assert stored is not None
    lake.storage.put(key, json.dumps({**json.loads(stored.body), "tap": "another"}).encode())


def test_an_older_manifest_put_back_after_a_move_leads_to_the_log_and_a_foreign_log_is_refused(tmp_path: Path) -> None:
    case = SUITE / "log-moved-to-merge-and-an-older-manifest"
    shutil.copytree(case / "lake", tmp_path / "lake")
    lake = Lake.open(str(tmp_path / "lake"))
    stream = lake.stream("t", "s")
    state = stream.snapshot()
    assert (state.store, state.next_offset) == (
        "merge",
        len(json.loads((case / "expected.json").read_text())["messages"]),
    )
    before = lake.storage.get(layout.manifest_key("t", "s"))
    with pytest.raises(ForeignManifestError, match="nothing was written"):
        stream.writer(writer_id="w").open()
    assert lake.storage.get(layout.manifest_key("t", "s")) == before
    of_another_tap(lake)
    with pytest.raises(ForeignManifestError, match="another"):
        stream.snapshot()

"""A run with ``atomic_run``: what it brings is in the lake when it has finished, or nothing of it."""

from __future__ import annotations

import io
import json
import logging
import signal
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import pytest

from singerlake.errors import (
    AccessDeniedError,
    InvalidMessageError,
    SettingError,
    StorageFullError,
    TruncatedInputError,
    UnknownOutcomeError,
)
from singerlake.format.decision import Decision
from singerlake.format.extra_fields import read_header
from singerlake.format.state.features import features_of
from singerlake.lake import Lake
from singerlake.storage.local.storage import LocalStorage
from singerlake.stores.atomic.decisions import Decisions
from singerlake.upkeep.verify import verify_metadata
from target_singerlake.files import publishing
from target_singerlake.target import TargetSingerlake
from tests.processes.killed import Killed
from tests.target.support import (
    TAP,
    WIDER,
    activate,
    config,
    environment,
    ingest,
    kept_ids,
    manifest,
    records,
    schema,
    state,
    text,
)

ATOMIC: dict[str, Any] = {"atomic_run": True, "manifest_store": "log", "max_file_records": 2}
LINES = [
    schema(),
    schema("orders"),
    *records(0, 1, 2),
    state({"at": 3}),
    *records(7, 8, 9, stream="orders"),
    state({"at": 6}),
]


def decided(root: Path) -> list[Decision]:
    decisions = Decisions(Lake.open(str(root)).storage, TAP)
    return decisions.all_of(decisions.listed().names)


def seen(root: Path) -> tuple[list[int], list[int]]:
    there = Lake.open(str(root)).streams(TAP)
    users, orders = (kept_ids(root, name) if name in there else [] for name in ("users", "orders"))
    return users, orders


def test_a_run_is_one_commit_over_its_streams(tmp_path: Path) -> None:
    assert ingest(tmp_path, LINES, **ATOMIC) == ['{"at": 6}']
    assert seen(tmp_path) == ([0, 1, 2], [7, 8, 9])
    (decision,) = decided(tmp_path)
    assert decision.committed
    assert {stream: (each.offset, each.end) for stream, each in decision.streams.items()} == {
        "users": (0, 3),
        "orders": (0, 3),
    }
    state = manifest(tmp_path)
    assert (features_of(state), state.settled, len(state.files)) == (("atomic",), decision.id, 2)
    assert [(run.id, run.status, run.records) for run in state.runs] == [(decision.run, "finished", 3)]
    assert verify_metadata(Lake.open(str(tmp_path)).storage) == ()
    entries = Lake.open(str(tmp_path)).catalogue(TAP)["streams"]
    assert sorted(entry["tap_stream_id"] for entry in entries) == ["orders", "users"]


def test_files_say_that_their_run_is_atomic(tmp_path: Path) -> None:
    ingest(tmp_path / "atomic", LINES, **ATOMIC)
    ingest(tmp_path / "plain", LINES, manifest_store="log")
    for name, atomic in (("atomic", True), ("plain", False)):
        for path in (tmp_path / name).rglob("*.singer.gz"):
            header = read_header(path.read_bytes())
            assert header is not None
            assert header.atomic is atomic


def test_several_versions_and_activations_keep_their_order(tmp_path: Path) -> None:
    lines = [schema(), *records(0), schema(schema=WIDER), *records(1), schema(), *records(2), activate(5), state(1)]
    assert ingest(tmp_path, lines, **ATOMIC) == ["1"]
    assert kept_ids(tmp_path) == [0, 1, 2]
    found = manifest(tmp_path)
    assert list(found.versions.values()) == ["v1", "v2"]
    assert [held.first_offset for held in found.schemas.values()] == [0, 1]


def test_a_stream_without_messages_is_known_once_the_run_is_committed(tmp_path: Path) -> None:
    lines = [schema(), schema("empty"), state({"at": 0}), *records(1), state({"at": 1})]
    assert ingest(tmp_path, lines, **ATOMIC) == ['{"at": 1}']
    assert list(manifest(tmp_path, "empty").versions.values()) == ["v1"]
    assert list(decided(tmp_path)[0].streams) == ["users"]


def test_a_run_without_messages_decides_nothing_and_its_state_goes_on(tmp_path: Path) -> None:
    assert ingest(tmp_path, [schema("empty"), state({"at": 1})], **ATOMIC) == ['{"at": 1}']
    assert list(manifest(tmp_path, "empty").versions.values()) == ["v1"]
    assert decided(tmp_path) == []


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ([b"{", *records(3)], InvalidMessageError),
        ([b'{"type":"RECORD","stream":"users","record":{}'], TruncatedInputError),
        ([*records(1, stream="unknown")], InvalidMessageError),
    ],
    ids=["no message", "cut", "before its schema"],
)
def test_of_a_run_that_fails_nothing_is_there(
    tmp_path: Path, more: Iterable[bytes], error: type[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    ingest(tmp_path, [schema(), *records(100), state({"at": 0})], **ATOMIC)
    data = text([*LINES, *more])
    with pytest.raises((error, SystemExit)):
        ingest(tmp_path, data if error is not TruncatedInputError else data[:-1], **ATOMIC)
    assert capsys.readouterr().out == ""
    assert seen(tmp_path) == ([100], [])
    assert len(decided(tmp_path)) == 1
    assert ingest(tmp_path, LINES, **ATOMIC) == ['{"at": 6}']
    assert seen(tmp_path) == ([100, 0, 1, 2], [7, 8, 9])


def test_of_a_run_that_is_stopped_nothing_is_there_and_no_state_goes_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    target = TargetSingerlake(config=config(tmp_path, **ATOMIC))
    target.logger.setLevel(logging.INFO)
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")

    class Signalling(io.BytesIO):
        def read1(self, size: int = -1, /) -> bytes:
            target._handle_termination(signal.SIGTERM, None)
            return super().read1(size)

    with redirect_stdout(out), pytest.raises(SystemExit) as raised:
        target.listen(Signalling(text(LINES)))
    assert raised.value.code == 128 + signal.SIGTERM
    out.seek(0)
    assert out.read() == ""
    assert seen(tmp_path) == ([], [])
    assert decided(tmp_path) == []
    assert "nothing of it is in the lake" in caplog.text
    assert caplog.messages[-1] == f"Stopped by signal {signal.SIGTERM:d}"


@pytest.mark.parametrize(("settings", "kept"), [(ATOMIC, "nothing of an atomic run"), ({}, "everything before it")])
def test_an_input_that_ends_in_a_line_says_what_is_committed(
    tmp_path: Path, settings: dict[str, Any], kept: str
) -> None:
    with pytest.raises(TruncatedInputError, match=f"; {kept} is committed"):
        ingest(tmp_path, text(LINES)[:-5], **settings)


def test_an_error_of_the_lake_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put = LocalStorage.put

    def full(self: LocalStorage, key: str, *arguments: Any, **options: Any) -> Any:
        if "/orders/_log/" in key and key.endswith("1.json"):
            raise StorageFullError("no space is left")
        return put(self, key, *arguments, **options)

    monkeypatch.setattr(LocalStorage, "put", full)
    with pytest.raises((StorageFullError, SystemExit)):
        ingest(tmp_path, LINES, **ATOMIC)
    monkeypatch.setattr(LocalStorage, "put", put)
    assert seen(tmp_path) == ([], [])
    assert [decision.committed for decision in decided(tmp_path)] == [False]
    assert ingest(tmp_path, LINES, **ATOMIC) == ['{"at": 6}']
    assert seen(tmp_path) == ([0, 1, 2], [7, 8, 9])


class _Told(SimpleQueue[Any]):
    """A queue that fails a reader whose wait was in vain."""

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        try:
            return super().get(block, timeout)
        except Empty:
            assert not block, "nobody told the reader that there is room for more files"
            raise


def test_reading_goes_on_as_soon_as_files_are_uploaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("target_singerlake.ingest._WAIT", 30.0)
    monkeypatch.setattr(publishing, "SimpleQueue", _Told)
    files = 4 * publishing.PENDING_FILES
    ingest(tmp_path, [schema(), *records(*range(files))], **{**ATOMIC, "max_file_records": 1})
    assert len(manifest(tmp_path).files) == files


def test_an_error_behind_the_decision_says_that_the_run_is_in_the_lake(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put = LocalStorage.put

    def denied(self: LocalStorage, key: str, *arguments: Any, **options: Any) -> Any:
        if "/orders/_log/" in key and key.endswith("2.json"):
            raise AccessDeniedError("storage denied access", hint="ask for the permission", key=key)
        return put(self, key, *arguments, **options)

    monkeypatch.setattr(LocalStorage, "put", denied)
    with pytest.raises((UnknownOutcomeError, SystemExit)) as raised:
        ingest(tmp_path, LINES, **ATOMIC)
    said = f"{raised.value} {caplog.text}"
    assert "an atomic run is in the lake" in said
    assert "storage denied access; ask for the permission" in said
    assert capsys.readouterr().out == ""
    monkeypatch.setattr(LocalStorage, "put", put)
    assert seen(tmp_path) == ([0, 1, 2], [7, 8, 9])
    assert ingest(tmp_path, LINES, **ATOMIC) == ['{"at": 6}']
    assert seen(tmp_path) == ([0, 1, 2] * 2, [7, 8, 9] * 2)


@pytest.mark.parametrize("store", [None, "lockfile", "merge"])
def test_a_new_lake_whose_store_cannot_do_it_is_refused_before_anything_is_written(
    tmp_path: Path, store: str | None
) -> None:
    with pytest.raises((SettingError, SystemExit)):
        ingest(tmp_path / "lake", LINES, atomic_run=True, manifest_store=store)
    assert not (tmp_path / "lake").exists()


def test_a_lake_in_another_store_is_refused_with_the_way_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ingest(tmp_path, LINES)
    with pytest.raises((SettingError, SystemExit)) as raised:
        ingest(tmp_path, LINES, atomic_run=True)
    assert "singerlake store migrate" in f"{raised.value} {caplog.text}"
    assert seen(tmp_path) == ([0, 1, 2], [7, 8, 9])


MOMENTS = {
    "before an upload": ("singerlake.storage.local.storage:LocalStorage.upload", "before"),
    "after an upload": ("singerlake.storage.local.storage:LocalStorage.upload", "after"),
    "before something is put": ("singerlake.storage.local.storage:LocalStorage.put", "before"),
    "after something is put": ("singerlake.storage.local.storage:LocalStorage.put", "after"),
    "before the decision": ("singerlake.stores.atomic.decisions:Decisions.decide", "before"),
    "after the decision": ("singerlake.stores.atomic.decisions:Decisions.decide", "after"),
    "before the STATE": ("target_singerlake.state:StateOutput.write", "before"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_target_that_is_killed_leaves_all_of_its_run_or_nothing(tmp_path: Path, moment: str) -> None:
    place, side = MOMENTS[moment]
    outcomes = set()
    for calls in range(1, 30):
        root = tmp_path / str(calls)
        asked = Killed(place=place, side=side, calls=calls, config=config(root, **ATOMIC))
        done = asked.run(text(LINES), env=environment())
        found = seen(root) if root.exists() else ([], [])
        outcomes.add(json.dumps(found))
        assert found in (([], []), ([0, 1, 2], [7, 8, 9]))
        assert found[0] or not done.stdout
        if done.returncode == 0:
            assert done.stdout == b'{"at": 6}\n'
            break
    else:
        raise AssertionError("the run never ended by itself")
    assert json.dumps(([0, 1, 2], [7, 8, 9])) in outcomes

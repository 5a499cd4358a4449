"""``singerlake project run --follow``: a process that keeps tables up with what targets capture, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from singerlake.cli.commands.project.engines import EngineChoice, Engines
from singerlake.clock import SystemClock
from singerlake.errors import StorageUnavailableError, UnexpectedError
from singerlake.lake import Lake
from singerlake.tables import project as tables_module
from singerlake.work.engine import Engine, Threads
from tests.cli.conftest import Run
from tests.lakes import build_stream

BIN = Path(sys.executable).parent
SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}


def capture(root: Path, *records: dict[str, Any]) -> None:
    """A run of the target."""
    head = {"type": "SCHEMA", "stream": "users", "schema": SCHEMA, "key_properties": ["id"]}
    messages = [head, *({"type": "RECORD", "stream": "users", "record": record} for record in records)]
    config = root.parent / "config.json"
    config.write_text(json.dumps({"lake_root": str(root), "tap_id": "t"}))
    text = "".join(json.dumps(message) + "\n" for message in messages)
    subprocess.run([BIN / "target-singerlake", "--config", config], input=text, text=True, check=True)


@contextmanager
def following(root: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """The command at work; what it says on standard output is a pipe."""
    command = [str(BIN / "singerlake"), "project", "run", str(root), "--all", "--follow", "--every", "1s", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), pytest.param(signal.SIGINT, 130, marks=pytest.mark.thorough)]
)
def test_a_table_follows_two_captures(tmp_path: Path, number: signal.Signals, code: int) -> None:
    root = tmp_path / "lake"
    capture(root, {"id": 1, "name": "Ada"})
    with following(root) as process:
        assert line(process) == "looking every 1 second for what is new; Ctrl-C ends it\n"
        assert line(process).startswith("users: 1 record read: 1 new; 1 row in 1 file, ")
        capture(root, {"id": 1, "name": "Ada Lovelace"}, {"id": 2, "name": "Grace"})
        assert line(process).startswith("users: 2 records read: 1 new, 1 changed; 2 rows in 1 file, ")
        table = Lake.open(str(root)).table("users").to_arrow(columns=["id", "name"]).read_all().to_pylist()
        assert table == [{"id": 1, "name": "Ada Lovelace"}, {"id": 2, "name": "Grace"}]
        process.send_signal(number)
        out, err = process.communicate()
    assert (process.returncode, out) == (code, "")
    assert err == ""


@pytest.fixture
def lake(root: Path) -> Lake:
    lake = Lake.open(str(root))
    build_stream(lake, "t", "users", SCHEMA, [{"id": 1}], key_properties=("id",))
    return lake


def pauses(monkeypatch: pytest.MonkeyPatch, *meanwhile: Any) -> list[float]:
    """What happens in each pause; after the last one comes Ctrl-C. Gives the lengths of the pauses."""
    slept: list[float] = []

    def sleep(_: SystemClock, seconds: float) -> None:
        slept.append(seconds)
        if len(slept) > len(meanwhile):
            raise KeyboardInterrupt
        meanwhile[len(slept) - 1]()

    monkeypatch.setattr(SystemClock, "sleep", sleep)
    return slept


def test_what_is_told_in_json_is_a_line_for_each_table(
    run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        lake.storage.put("published/orders/_table.json", b"{")
        build_stream(lake, "t", "orders", SCHEMA, [{"id": 1}], key_properties=("id",))

    slept = pauses(monkeypatch, lambda: None, broken)
    result = run("project", "run", root, "--all", "--follow", "--json")
    assert (result.exit_code, slept) == (130, [10.0, 10.0, 10.0])
    told = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(each["table"], each["status"], each["retry_in"]) for each in told] == [
        ("users", "made", None),
        ("orders", "failed", 20.0),
    ]
    assert told[1]["error"]["kind"] == "corrupt_object"


def test_a_failing_table_and_a_lake_that_does_not_answer_are_said_and_end_nothing(
    run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.storage.put("published/users/_table.json", b"{")

    def away() -> None:
        def fail(_: Lake) -> list[str]:
            raise StorageUnavailableError("no answer", hint="run again")

        monkeypatch.setattr(Lake, "taps", fail)

    pauses(monkeypatch, away)
    result = run("project", "run", root, "--all", "--follow", "--quiet")
    assert result.exit_code == 130
    first, second = result.stdout.splitlines()
    assert first.startswith("users: failed (corrupt_object): not the state of a table")
    assert first.endswith("; trying again in 20 seconds")
    assert second == "failed (storage_unavailable): no answer; run again; trying again in 20 seconds"


class Dead:
    """An engine that answers once, as a Spark whose Java ends."""

    def __init__(self) -> None:
        self.opened = 0

    @contextmanager
    def open(self, *_: object, **__: object) -> Iterator[Dead]:
        self.opened += 1
        yield self

    def __call__(self, task: object, items: object) -> Any:
        raise ConnectionRefusedError(111, "refused")


def test_an_engine_that_is_gone_ends_it(run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dead = Dead()
    monkeypatch.setattr("singerlake.cli.commands.project.engines.reader", dead.open)
    monkeypatch.setattr(tables_module, "SMALL_BYTES", 0)
    pauses(monkeypatch)
    result = run("project", "run", root, "--all", "--follow", "--engine", "processes")
    assert (result.exit_code, dead.opened) == (1, 1)
    assert "users: failed (unexpected): ConnectionRefusedError was raised" in result.stdout
    assert "engine 'processes' does not answer any more; run it again, which starts another one" in result.stderr


def test_one_engine_serves_all_its_runs_and_closes_at_the_end(
    run: Run, lake: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []

    @contextmanager
    def opening(*_: object, **__: object) -> Iterator[Engine]:
        happened.append("opened")
        try:
            yield Threads(lake.storage)
        finally:
            happened.append("closed")

    def more() -> None:
        happened.append("pause")
        build_stream(lake, "t", "users", SCHEMA, [{"id": 2}], key_properties=("id",))

    monkeypatch.setattr("singerlake.cli.commands.project.engines.reader", opening)
    monkeypatch.setattr(tables_module, "SMALL_BYTES", 0)
    pauses(monkeypatch, lambda: happened.append("pause"), more, more)
    result = run("project", "run", root, "--all", "--follow")
    assert [line.partition(":")[0] for line in result.stdout.splitlines()[1:]] == ["users"] * 3
    assert happened == ["opened", "pause", "pause", "pause", "closed"]


@pytest.mark.parametrize("kind", ["threads", "processes"])
def test_an_engine_that_is_there_answers(lake: Lake, kind: str) -> None:
    from contextlib import ExitStack

    with ExitStack() as held:
        engines = Engines(EngineChoice(kind, 2, None, None), lake, held)
        engines(1)
        engines.check()
        engines._open[kind] = Dead()
        with pytest.raises(UnexpectedError):
            engines.check()

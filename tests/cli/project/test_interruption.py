"""A run of tables that is told to end: what was published stays, and the next run does the rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from singerlake.lake import Lake
from singerlake.tables import project as many_tables
from tests.cli.conftest import Run
from tests.cli.test_interruption import SIGNALS, at
from tests.lakes import build_stream

SCHEMA = {"properties": {"id": {"type": "integer"}}}


@pytest.fixture
def streams(root: Path) -> Lake:
    lake = Lake.open(str(root))
    for name in ("a", "b", "c"):
        build_stream(lake, "t", name, SCHEMA, [{"id": n} for n in range(6)], key_properties=("id",), file_size=2)
    return lake


@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("small", [True, False])
@pytest.mark.parametrize("operation", ["put", "upload", "open"])
def test_an_interrupted_run_is_run_again(
    run: Run,
    streams: Lake,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    operation: str,
    small: bool,
    number: int,
) -> None:
    if not small:
        monkeypatch.setattr(many_tables, "SMALL_BYTES", 0)
    with monkeypatch.context() as patch:
        at(patch, operation, number)
        result = run("project", "run", root, "--all")
        assert result.exit_code == SIGNALS[number]
        assert result.stderr.endswith("interrupted; what was done so far stays: run it again\n")
    assert run("project", "run", root, "--all").exit_code == 0
    for name in ("a", "b", "c"):
        assert sorted(streams.table(name).to_arrow(columns=["id"]).read_all().column("id").to_pylist()) == [*range(6)]
    assert run("project", "gc", root, "--delete", "--grace", "0s").exit_code == 0
    assert run("project", "verify", root, "--deep").exit_code == 0
    left = [path for path in (root / "published").rglob("*") if path.is_file() and path.name != "_table.json"]
    assert len(left) == 3


def test_what_a_run_made_and_did_not_publish_goes_with_its_error(
    run: Run, streams: Lake, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from singerlake.tables.run import write as module

    def fail(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(module.TableAttempt, "_arrange", fail)
    result = run("project", "run", root, "a", "--all")
    assert result.exit_code == 1
    assert "a: failed (unexpected): MemoryError was raised" in result.output
    assert [path.name for path in (root / "published").rglob("*") if path.is_file()] == ["_table.json"]

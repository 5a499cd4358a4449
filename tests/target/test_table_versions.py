"""A new ``version`` of records that no ACTIVATE_VERSION follows: the target warns of it, and so does ``status``."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from singerlake.cli.main import main
from singerlake.errors import InputError
from singerlake.format.state.table_versions import unactivated
from singerlake.lake import Lake
from tests.target.support import TAP, activate, ingest, record, schema, state


def run(root: Path, lines: Iterable[bytes], caplog: pytest.LogCaptureFixture, **settings: object) -> bool:
    """Whether the target warned."""
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        ingest(root, [schema(), *lines], **settings)
    return "no ACTIVATE_VERSION followed" in caplog.text


def left(root: Path) -> int | None:
    found = unactivated(Lake.open(str(root)).stream(TAP, "users").snapshot())
    return found.version if found else None


@pytest.mark.parametrize(
    ("runs", "warned", "at_the_end"),
    [
        pytest.param([[record(1)], [record(2)]], [], None, id="no versions"),
        pytest.param([[record(1, version=7), activate(7)]], [], None, id="activated behind the records"),
        pytest.param([[activate(7), record(1, version=7)]], [], None, id="activated before the records"),
        pytest.param([[record(1, version=7)]], [0], 7, id="the first one of a stream"),
        pytest.param([[record(1, version=7), activate(7)], [record(2, version=8)]], [1], 8, id="a later one"),
        pytest.param(
            [[record(1, version=7), activate(7)], [record(2, version=7)], [record(3, version=7)]],
            [],
            None,
            id="a version that goes on",
        ),
        pytest.param(
            [[record(1, version=7), activate(7)], [record(2, version=8)], [record(3, version=8)]],
            [1],
            8,
            id="a version that goes on unactivated is told once, and stays in status",
        ),
        pytest.param(
            [[record(1, version=7)], [record(2, version=8), activate(8)], [record(3)]], [0], None, id="activated since"
        ),
        pytest.param([[record(1, version=7)], [activate(7)]], [0], None, id="activated without records"),
        pytest.param([[record(1, version=7), activate(7), record(2, version=8)]], [0], 8, id="two in one run"),
        pytest.param([[record(1, version=7), activate(6)]], [0], 7, id="another one is activated"),
        pytest.param([[record(1, version=7.0), activate(7)]], [], None, id="spelled as a number"),
        pytest.param([[record(1, version="7")], [record(1, version=2**63)]], [], None, id="not a version"),
        pytest.param([[record(1, version=-7, ratio=float("nan"))]], [0], -7, id="a line that msgspec refuses"),
    ],
)
def test_a_version_without_its_activation_is_told(
    runs: list[list[bytes]],
    warned: list[int],
    at_the_end: int | None,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert [number for number, lines in enumerate(runs) if run(tmp_path, lines, caplog)] == warned
    assert left(tmp_path) == at_the_end


@pytest.mark.parametrize(
    "settings",
    [
        {"manifest_store": "log"},
        {"manifest_store": "log", "atomic_run": True},
        pytest.param({"manifest_store": "merge"}, marks=pytest.mark.soak),
        {"max_file_records": 1},
        {"validate_records": True},
        {"stream_maps": {"users": {"name": "name.upper()"}}},
    ],
)
def test_it_is_told_whatever_way_records_take(
    settings: dict[str, object], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one, two = ([record(id, version=version) for id in (1, 2, 3)] for version in (7, 8))
    assert not run(tmp_path, [*one, state(1), activate(7)], caplog, **settings)
    assert left(tmp_path) is None
    assert run(tmp_path, [*two, state(2)], caplog, **settings)
    assert "Stream 'users': records have version 8, and" in caplog.text
    assert left(tmp_path) == 8


def test_a_run_that_did_not_finish_is_not_judged_and_the_next_one_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    run(tmp_path, [record(1, version=7), activate(7)], caplog)
    with pytest.raises(InputError):
        run(tmp_path, [record(1, version=8), b"{"], caplog)
    assert left(tmp_path) is None
    assert run(tmp_path, [record(2, version=8)], caplog)
    assert not run(tmp_path, [record(2, version=9), activate(9)], caplog)


def test_what_was_activated_before_the_known_runs_is_not_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(tmp_path, [record(1, version=7), activate(7)], caplog)
    manifest = tmp_path / "raw" / TAP / "users" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"runs": []}))
    assert not run(tmp_path, [record(2, version=7)], caplog)
    assert run(tmp_path, [record(3, version=8)], caplog)


def test_status_names_the_stream_the_run_and_the_version(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    def status(*options: str) -> str:
        result = CliRunner().invoke(main, ["status", str(tmp_path), *options])
        assert result.exit_code == 0
        return result.stdout

    run(tmp_path, [record(1, version=7), activate(7)], caplog)
    assert "ACTIVATE_VERSION" not in status()
    assert json.loads(status("--json"))["streams"][0]["unactivated"] is None
    run(tmp_path, [record(2, version=8)], caplog)
    id = Lake.open(str(tmp_path)).stream(TAP, "users").snapshot().runs[-1].id
    assert f"{TAP}/users: records of run {id} have version 8, and no ACTIVATE_VERSION followed" in status()
    assert json.loads(status("--json"))["streams"][0]["unactivated"] == {"version": 8, "run": id}

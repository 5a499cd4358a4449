"""An exception of a library in one table: it is told of that table, and the others are worked on."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import build_stream


@pytest.mark.parametrize(
    ("command", "module_name", "broken"),
    [
        ("ls", "singerlake.tables.maintain.listing", "standing_of"),
        ("verify", "singerlake.tables.maintain.verify", "verify_files"),
        ("gc", "singerlake.tables.maintain.collect", "plan_collection"),
        ("drop", "singerlake.tables.maintain.drop", "plan_drop"),
    ],
)
def test_an_exception_that_nothing_expects_is_told_of_its_table_and_ends_no_other(
    run: Run, root: Path, command: str, module_name: str, broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.open(str(root))
    for name in ("events", "users"):
        build_stream(lake, "t", name, {"properties": {"id": {"type": "integer"}}}, [{"id": 1}])
    assert run("project", "run", root, "--all").exit_code == 0
    module = importlib.import_module(module_name)
    real = getattr(module, broken)

    def failing(*given: Any, **more: Any) -> Any:
        if "events" in [getattr(each, "table", each) for each in given]:
            raise ZeroDivisionError("4711")
        return real(*given, **more)

    monkeypatch.setattr(module, broken, failing)
    result = run("project", command, root, "--json", *(["events", "users"] if command == "drop" else []))
    assert result.exit_code == 1
    assert "4711" not in result.output
    report = json.loads(result.stdout)
    if command == "ls":
        assert "ZeroDivisionError" in next(each["trouble"] for each in report["tables"] if each["table"] == "events")
    else:
        [failed] = report["failed"]
        assert (failed["table"], failed["error"]["kind"]) == ("events", "unexpected")
    assert "users" in [each["table"] for each in report["tables"]]

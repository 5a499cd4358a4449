"""``Lake.project``: a run of tables by one call of Python."""

from __future__ import annotations

import dataclasses
import doctest
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import singerlake
from singerlake.errors import CheckFailedError, NotALakeError, SettingError, UnknownNameError
from singerlake.lake import Lake
from singerlake.work.engine import Threads
from tests.lakes import build_stream
from tests.tables.tables import memory_lake

SCHEMA = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": ["null", "string"]}}}
PEOPLE = [{"id": 1, "name": "Ada"}, {"id": 2, "name": "Grace"}]


@pytest.fixture
def lake() -> Lake:
    lake = memory_lake()
    build_stream(lake, "my-tap", "users", SCHEMA, PEOPLE, key_properties=("id",))
    return lake


def declare(folder: Path, tables: str) -> Path:
    path = folder / "projections.yml"
    path.write_text(f"lake_root: $NOT_SET\ntables:\n{tables}")
    return path


@pytest.mark.parametrize(
    "method",
    [
        *(Lake.project, Lake.table, Lake.diff_table, Lake.diff_planned),
        *(Lake.list_tables, Lake.verify_tables, Lake.gc_tables, Lake.drop_tables),
    ],
)
def test_the_examples_of_docstrings(lake: Lake, method: Callable[..., Any]) -> None:
    (example,) = doctest.DocTestFinder().find(method, method.__name__, globs={"lake": lake})
    assert len(example.examples) >= 2
    assert doctest.DocTestRunner().run(example).failed == 0


def test_it_tells_what_was_done(lake: Lake) -> None:
    (made,) = lake.project(all=True)
    assert dataclasses.asdict(made) == {
        "name": "users",
        "tap": "my-tap",
        "stream": "users",
        "status": "made",
        "rows": 2,
        "files": 1,
        "bytes": lake.table("users").state.bytes,
        "records": 2,
        "inserted": 2,
        "updated": 0,
        "deleted": 0,
        "rescued": 0,
        "checks": {},
        "error": None,
    }
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.rows = 3  # type: ignore[misc]
    (again,) = lake.project(all=True)
    assert (again.status, again.rows, again.records) == ("nothing_new", 2, 0)
    (anew,) = lake.project(all=True, full_refresh=True)
    assert (anew.status, anew.rows, anew.records) == ("made", 2, 2)


def test_a_file_declares_and_names_choose(lake: Lake, tmp_path: Path) -> None:
    tables = "  people: {from: my-tap.users, checks: {id: {'< 2': warn}}}\n  everyone: {from: my-tap.users}\n"
    file = declare(tmp_path, tables)
    (made,) = lake.project(str(file), tables=["people"])
    assert (made.name, made.rows, made.checks) == ("people", 2, {"id < 2": 1})
    assert [(each.name, each.status) for each in lake.project(file)] == [
        ("people", "nothing_new"),
        ("everyone", "made"),
    ]
    with pytest.raises(UnknownNameError, match="there is no table 'peple'; did you mean 'people'"):
        lake.project(file, tables=["peple"])


def test_a_stream_without_messages_is_said(lake: Lake) -> None:
    build_stream(lake, "my-tap", "empty", SCHEMA, [])
    assert [(each.name, each.status, each.rows) for each in lake.project(all=True)] == [
        ("empty", "no_messages", None),
        ("users", "made", 2),
    ]


def test_an_error_is_raised_when_all_others_are_made(lake: Lake, tmp_path: Path) -> None:
    file = declare(
        tmp_path,
        "  bad: {from: my-tap.users, checks: {id: '< 2'}}\n  lost: {from: my-tap.nothing}\n"
        "  worse: {from: my-tap.users, checks: {id: '> 9'}}\n  good: {from: my-tap.users}\n",
    )
    with pytest.raises(UnknownNameError, match=r"my-tap\.nothing") as raised:
        lake.project(file)
    assert [note.partition(":")[0] for note in raised.value.__notes__] == [
        "table 'bad' failed too (check_failed)",
        "table 'worse' failed too (check_failed)",
    ]
    assert lake.table("good").rows == 2
    results = {each.name: each for each in lake.project(file, raise_errors=False)}
    assert {name: each.status for name, each in results.items()} == {
        "lost": "failed",
        "bad": "failed",
        "worse": "failed",
        "good": "nothing_new",
    }
    assert isinstance(results["bad"].error, CheckFailedError)
    with pytest.raises(CheckFailedError, match="checks failed: id < 2: 1 row,"):
        lake.project(file, tables=["bad"])


@pytest.mark.parametrize("given", [{}, {"file": "projections.yml", "all": True}])
def test_either_a_file_or_all(lake: Lake, given: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match="tables are declared by a file or by all=True; give one of them"):
        lake.project(**given)


def test_what_is_no_lake_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotALakeError):
        Lake.open(str(tmp_path)).project(all=True)


def test_an_engine_does_the_work(lake: Lake) -> None:
    tasks = []

    class Told(Threads):
        def __call__(self, task: Any, items: Any) -> Any:
            tasks.append(type(task).__name__)
            return super().__call__(task, items)

    assert lake.project(all=True, engine=Told(lake.storage))[0].rows == 2
    assert "Extract" in tasks


def test_results_and_tables_are_of_the_package(lake: Lake) -> None:
    assert isinstance(lake.project(all=True)[0], singerlake.ProjectedTable)
    assert isinstance(lake.table("users"), singerlake.LakeTable)


def test_a_dry_run_plans_and_writes_nothing(lake: Lake) -> None:
    before = [entry.key for entry in lake.storage.list("")]
    (planned,) = lake.project(all=True, dry_run=True)
    assert (planned.name, planned.status, planned.rows) == ("users", "planned", None)
    assert [entry.key for entry in lake.storage.list("")] == before


def test_progress_is_told_of_what_an_engine_reads(lake: Lake) -> None:
    told: list[tuple[str, int, int | None]] = []
    lake.project(all=True, engine=Threads(lake.storage), progress=lambda *each: told.append(each))
    assert told[0] == ("users", 0, None)
    assert {name for name, _, _ in told} == {"users"}
    assert told[-1][1] > 0
    assert told[-1][2] is not None

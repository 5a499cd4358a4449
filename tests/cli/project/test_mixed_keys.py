"""A key whose declared type changes makes two rows of what was one: plan, run and check say so, and a cast mends it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from singerlake.lake import Lake
from tests.cli.conftest import Run
from tests.lakes import build_stream

SAID = (
    'the key id is integer from v1 on and text from v3 on, and values of two types, as 1 and "1", are two keys; '
    "cast it under 'columns' in projections.yml, as to text"
)


def schema(id: Any, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"id": id, **more}}


def capture(root: Path, *types: Any) -> None:
    """A stream of which each version has one record of the same thing; the second one adds a property alone."""
    for place, kind in enumerate(types):
        schemas = [schema({"type": kind})] if place else [schema({"type": kind}), schema({"type": kind}, x={})]
        for each in schemas:
            record = {"id": "1" if kind in ("string", ["string"]) else 1}
            build_stream(Lake.open(str(root)), "t", "users", each, [record], key_properties=("id",))


def declared(root: Path, rule: str) -> str:
    file = root.parent / "tables.yml"
    file.write_text(f"lake_root: {root}\ntables:\n  users: {{from: t.users, {rule}}}\n")
    return str(file)


def ids(root: Path) -> list[Any]:
    found: list[Any] = Lake.open(str(root)).table("users").to_arrow(columns=["id"]).read_all()["id"].to_pylist()
    return found


def test_plan_run_and_check_name_the_key_and_the_versions(run: Run, root: Path) -> None:
    capture(root, "integer", "string")
    assert f"  {SAID}\n" in run("project", "plan", root, "--all").stdout
    assert f"  {SAID}\n" in run("project", "run", root, "--all").stdout
    assert sorted(ids(root)) == ['"1"', "1"]
    assert run("project", "run", root, "--all").stdout == f"users: nothing new\n  {SAID}\n"
    checked = run("check", root)
    assert (checked.exit_code, f"warning: users: {SAID}\n" in checked.stdout) == (1, True)
    (plan,) = json.loads(run("project", "plan", root, "--all", "--json").stdout)["tables"]
    assert plan["plan"]["mixed_keys"] == {"id": {"v1": "integer", "v3": "text"}}


@pytest.mark.parametrize(("cast", "row"), [("text", "1"), ("integer", 1)])
def test_a_cast_makes_one_row_of_the_two(run: Run, root: Path, cast: str, row: Any) -> None:
    capture(root, "integer", "string")
    run("project", "run", root, "--all")
    made = run("project", "run", "--file", declared(root, f"columns: {{id: {{cast: {cast}}}}}"))
    assert "two keys" not in made.stdout
    assert ids(root) == [row]
    assert run("check", root).exit_code == 0


@pytest.mark.parametrize("rule", ["keep: append", "columns: {id: {cast: json}}"])
def test_who_wants_both_keys_is_not_warned(run: Run, root: Path, rule: str) -> None:
    """Records without a key stay apart anyway, and a cast to json says that the types are meant."""
    capture(root, "integer", "string")
    assert "two keys" not in run("project", "run", "--file", declared(root, rule)).stdout
    assert run("check", root).exit_code == 0


@pytest.mark.parametrize("types", [("integer", "number"), (["null", "integer"], "integer"), (["integer", "string"],)])
def test_types_that_are_one_or_were_always_two_did_not_change(run: Run, root: Path, types: Any) -> None:
    capture(root, *types)
    assert "two keys" not in run("project", "run", root, "--all").stdout


def test_a_renamed_key_has_the_name_of_its_property(run: Run, root: Path) -> None:
    capture(root, "integer", "string")
    file = declared(root, "columns: {id: {rename: number}}")
    assert f"  {SAID}\n" in run("project", "run", "--file", file).stdout
    assert SAID in run("check", root).stdout

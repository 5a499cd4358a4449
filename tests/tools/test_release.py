"""What a release needs: one version, a changelog that has it, and a workflow that calls what is there."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS: dict[str, dict[Any, Any]] = {
    path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").glob("*.yml")
}
WORKFLOW = WORKFLOWS["ci"]
RUNS = [step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step]


def test_the_changelog_begins_with_what_is_not_released_and_then_has_this_version_with_its_date() -> None:
    heads = re.findall(r"^## \[(.+?)\](?: - (.+))?$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert heads[0] == ("Unreleased", "")
    assert heads[1][0] == PROJECT["project"]["version"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d", heads[1][1])


@pytest.mark.parametrize("target", re.findall(r"make ([\w-]+)", " ".join(RUNS)))
def test_each_target_that_the_workflow_makes_is_there(target: str) -> None:
    assert re.search(rf"^{target}:.*## ", (ROOT / "Makefile").read_text(), re.M)


def test_the_workflow_tests_each_python_that_the_package_names() -> None:
    named = [each.rsplit(" ", 1)[1] for each in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", each)]
    assert WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["python"] == named
    assert PROJECT["project"]["requires-python"] == f">={named[0]}"


def test_what_is_published_waits_for_every_test() -> None:
    jobs = WORKFLOWS["release"]["jobs"]
    assert jobs["publish"]["needs"] == "ci"
    assert jobs["ci"]["uses"] == "./.github/workflows/ci.yml"
    assert [RUNS.count(f"make {name}") for name in ("test", "test-thorough", "test-soak")] == [1, 1, 1]


@pytest.mark.parametrize("name", WORKFLOWS)
def test_actions_of_others_are_pinned_to_a_commit(name: str) -> None:
    used = [step["uses"] for job in WORKFLOWS[name]["jobs"].values() for step in job.get("steps", ()) if "uses" in step]
    assert used
    assert [use for use in used if not re.search(r"@[0-9a-f]{40}$", use)] == []

"""The page of the Python API shows what a user calls, and all that it names is there."""

from __future__ import annotations

import dataclasses
import inspect
import re
from importlib import import_module
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

import singerlake
from singerlake import results
from singerlake.errors import SingerlakeError

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/python.md").read_text()
SHOWN = dict(re.findall(r"^::: (\S+)\n(?: +options:\n +members: \[(.*)\])?", PAGE, re.MULTILINE))


@pytest.mark.parametrize("path", SHOWN)
def test_what_the_page_shows_is_there(path: str) -> None:
    if path == "singerlake.errors":
        import_module(path)
        return
    module, name = path.rsplit(".", 1)
    shown = getattr(import_module(module), name)
    assert shown is getattr(results if name in results.__all__ else singerlake, name)
    members = SHOWN[path].split(", ") if SHOWN[path] else []
    assert [member for member in members if not getattr(shown, member).__doc__] == []


@pytest.mark.parametrize("path", ["lake.Lake", "stream.LakeStream", "tables.read.LakeTable"])
def test_of_a_class_with_internals_only_chosen_members_are_shown(path: str) -> None:
    members = SHOWN[f"singerlake.{path}"]
    assert members
    assert not {"announce", "is_unborn", "rebuilt", "store", "writer", "table_runner", "state", "read"} & set(
        members.split(", ")
    )


def test_all_that_methods_which_look_after_a_lake_give_is_in_results_and_on_the_page() -> None:
    wanted: set[type] = set()
    waiting = [type for type in map(results.__dict__.__getitem__, results.__all__) if type.__name__.endswith("Result")]
    while waiting:
        found = waiting.pop()
        if get_args(found):
            waiting += get_args(found)
        elif inspect.isclass(found) and found.__module__.startswith("singerlake.") and found not in wanted:
            wanted.add(found)
            waiting += get_type_hints(found).values() if dataclasses.is_dataclass(found) else []
    # What a migration calls with, beside its results.
    given = {each.__name__ for each in wanted if not issubclass(each, SingerlakeError)} | {"NewStreams"}
    assert given - set(singerlake.__all__) == set(results.__all__)
    assert set(results.__all__) <= {path.rsplit(".", 1)[1] for path in SHOWN}


def test_methods_say_which_result_they_give() -> None:
    given = {
        inspect.signature(method).return_annotation
        for kind in (singerlake.Lake, singerlake.LakeStream, singerlake.LakeTable)
        for name, method in inspect.getmembers(kind, inspect.isfunction)
        if name in SHOWN[f"{kind.__module__}.{kind.__name__}"].split(", ")
    } | {inspect.signature(singerlake.build_site).return_annotation}
    assert {name for name in results.__all__ if name.endswith("Result")} <= given

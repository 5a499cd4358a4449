"""The rest of the reader written from ``shared/docs/format`` alone: section 11.6, atomic runs."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from tests.golden.independent.unreadable import Unreadable

if TYPE_CHECKING:
    from pathlib import Path

NAME = re.compile(r"\d{8}T\d{6}\.\d{6}Z-[0-9a-v]{16}")


class NoDecision(Exception):
    """A decision that cannot be read."""


def names_in(tap: Path) -> list[str]:
    """The names of all commits that are decided."""
    found = (path.name.removesuffix(".json") for path in (tap / "_commits").glob("*.json"))
    return sorted(name for name in found if NAME.fullmatch(name))


def decision_of(tap: Path, name: str) -> dict[str, Any] | None:
    """What was decided; None: nothing."""
    path = tap / "_commits" / f"{name}.json"
    if not path.exists():
        return None
    try:
        decision = json.loads(path.read_bytes())
    except ValueError as error:
        raise NoDecision(name) from error
    if not isinstance(decision, dict) or decision.get("format") != 1 or decision.get("id") != name:
        raise NoDecision(name)
    if type(decision.get("committed")) is not bool or not isinstance(decision.get("streams"), dict):
        raise NoDecision(name)
    return decision


def prepared(state: dict[str, Any], change: dict[str, Any]) -> dict[str, Any] | None:
    """The undecided state; None where the change does not fit."""
    if change["commit"] <= state.get("settled", ""):
        return None
    return {**state, "prepared": change}


def settled_by(decision: dict[str, Any]) -> dict[str, Any]:
    """The transaction that settles a decision."""
    change = {"kind": "settle", "commit": decision["id"], "committed": decision["committed"]}
    return {"id": f"{decision['id']}-settled", "at": decision["at"], "change": change}


def is_left_out(tap: Path, header: dict[str, Any] | None) -> bool:
    """Whether a file is of an atomic run that did not commit, as far as decisions are left."""
    if header is None or header.get("atomic") is not True:
        return False
    decisions = [decision for name in names_in(tap) if (decision := decision_of(tap, name)) is not None]
    return bool(decisions) and not any(each["committed"] and each["run"] == header["run"] for each in decisions)


def ends_as_of(tap: Path, commit: str, states: dict[str, dict[str, Any]]) -> dict[str, int]:
    """Where each stream ends as of a commit, of a lake that nobody writes to meanwhile."""
    agreed = {name: decision for name in names_in(tap) if (decision := decision_of(tap, name) or {}).get("committed")}
    if commit not in agreed:
        raise Unreadable("no such commit")
    if any(stream not in states for name in agreed if name <= commit for stream in agreed[name]["streams"]):
        raise Unreadable("a stream was dropped since")
    if any(states[stream]["next_offset"] < part["end"] for stream, part in agreed[commit]["streams"].items()):
        raise Unreadable("a stream does not show the commit yet")
    ends = {}
    for stream, state in states.items():
        end = None
        for name in names_in(tap):
            brought = (decision_of(tap, name) or {"streams": {}})["streams"].get(stream)
            if brought is None or brought["lineage"] != state["lineage"]:
                continue
            if name <= commit:
                end = brought["end"]
            elif end is None:
                end = brought["offset"]
        ends[stream] = state["next_offset"] if end is None else min(end, state["next_offset"])
    return ends

"""The rest of the reader written from ``shared/docs/format`` alone: section 11.1, what transactions do."""

from __future__ import annotations

from typing import Any

from tests.golden.independent.atomic import prepared
from tests.golden.independent.attached import (
    is_going,
    left_behind,
    names_in,
    path_of,
    rows_together,
    without_back,
)
from tests.golden.independent.runs import with_run


def applied(state: dict[str, Any], transaction: dict[str, Any]) -> dict[str, Any] | None:
    """The state after a transaction; None for one that does not fit. What readers do not need is left out."""
    change = transaction["change"]
    kind = change["kind"]
    if state["closed"] or ("prepared" in state and kind != "settle"):
        return None
    if kind == "prepare_files":
        fits = added(state, change, transaction["at"]) is not None
        return prepared(state, change) if fits else None
    if kind == "settle":
        return settled(state, change, transaction["at"])
    if kind == "close":
        return {**state, "closed": change["successor"]}
    if kind == "rebase":
        return {
            **state,
            **{name: value for name, value in change["manifest"].items() if name not in ("transaction", "store")},
        }
    if kind in ("add_files", "attach_files"):
        return added(state, change, transaction["at"])
    if kind == "add_together":
        return added_together(state, change["parts"], transaction["at"])
    if kind == "replace_files":
        return replaced(state, change, transaction["at"], both=False)
    if kind == "erase_files":
        return replaced(state, change, transaction["at"], both=True)
    if kind == "expire_files":
        return expired(state, change, transaction["at"])
    if kind == "retire_files":
        return retired(state, change, transaction["at"])
    if kind == "collect_files":
        return collected(state, change, transaction["at"])
    if kind == "record_run":
        return {**state, "runs": with_run(state.get("runs", []), change["run"], [])}
    return state


def added_together(state: dict[str, Any], parts: list[dict[str, Any]], at: str) -> dict[str, Any] | None:
    ids = [file["id"] for part in parts for file in part["files"]]
    if not parts or len(set(ids)) < len(ids):
        return None
    made: dict[str, Any] | None = state
    for part in parts:
        if made is None:
            return None
        known = {file["id"]: file["sha256"] for file in made["files"]}
        replaced_ids = {file["id"] for file in made.get("retired", ()) if file["by"] is not None}
        there = [known.get(file["id"]) == file["sha256"] or file["id"] in replaced_ids for file in part["files"]]
        if there and all(there):
            continue
        made = applied(made, {"at": at, "change": part})
    return made


def settled(state: dict[str, Any], change: dict[str, Any], at: str) -> dict[str, Any] | None:
    waiting = state.get("prepared")
    if waiting is None or waiting["commit"] != change["commit"]:
        return None
    before = {name: value for name, value in state.items() if name != "prepared"}
    made = added(before, waiting, at) if change["committed"] else before
    return {**made, "settled": change["commit"]} if made is not None and change["committed"] else made


def expired(state: dict[str, Any], change: dict[str, Any], at: str) -> dict[str, Any] | None:
    if change["lineage"] != state["lineage"] or change["before"] > state["next_offset"]:
        return None
    left = [file for file in state["files"] if file["offset"] + file["messages"] > change["before"]]
    gone = state["files"][: len(state["files"]) - len(left)]
    if not gone:
        return state
    files = [{"id": file["id"], "path": file["path"], "by": None, "since": at} for file in gone]
    retired = [*state.get("retired", ()), *files, *left_behind(gone, left, at)]
    return {**state, "files": left, "retired": retired}


def retired(state: dict[str, Any], change: dict[str, Any], at: str) -> dict[str, Any] | None:
    names = names_in(state["files"])
    listed = {file["id"] for file in state["files"]} | names
    paths = {file["path"] for file in state["files"]} | {path_of(name) for name in names}
    if any(id in listed or path in paths for id, path in change["files"]):
        return None
    known = {file["id"] for file in state.get("retired", ())}
    fresh = [{"id": id, "path": path, "by": None, "since": at} for id, path in change["files"] if id not in known]
    return {**state, "retired": [*state.get("retired", ()), *fresh]}


def collected(state: dict[str, Any], change: dict[str, Any], at: str) -> dict[str, Any] | None:
    named = {id for step in ("shown", "deleted", "forgotten") for id in change.get(step, ())}
    if named & {file["id"] for file in state["files"]}:
        return None
    paths = {file["path"] for file in state["files"]} | {path_of(name) for name in names_in(state["files"])}
    left = []
    for file in state.get("retired", ()):
        steps = [step for step in ("shown", "deleted", "forgotten") if file["id"] in change.get(step, ())]
        if change.get("since", {}).get(file["id"], file["since"]) != file["since"]:
            steps = []
        if "deleted" in steps and file["path"] in paths:
            return None
        if "forgotten" in steps:
            if file.get("deleted") is None:
                return None
            continue
        if "deleted" in steps and file.get("deleted") is None:
            if file.get("shown") is None:
                return None
            file = {**file, "deleted": at}
        elif "shown" in steps and file.get("shown") is None:
            file = {**file, "shown": at}
        left.append(file)
    return {**state, "retired": left}


def added(state: dict[str, Any], change: dict[str, Any], at: str) -> dict[str, Any] | None:
    files, versions, schemas = list(state["files"]), dict(state["versions"]), dict(state["schemas"])
    listed = {file["id"]: file for file in files}
    retired = {file["id"]: file["by"] for file in state.get("retired", ())}
    offset = state["next_offset"]
    for file in change["files"]:
        if file["id"] in retired and retired[file["id"]] is None:
            return None
        if file["id"] in listed and listed[file["id"]]["sha256"] != file["sha256"]:
            return None
        if file["id"] in listed or file["id"] in retired:
            continue
        version = file["version"]
        versions.setdefault(version, f"v{len(versions) + 1}")
        known = schemas.get(version, {"first_offset": offset, "first_seen": at})
        schemas[version] = {**known, **change["schemas"].get(version, {})}
        files.append({**file, "offset": offset})
        offset += file["messages"]
    fresh = files[len(state["files"]) :]
    if is_going(state.get("retired", []), fresh):
        return None
    still = without_back(state.get("retired", []), fresh)
    return {
        **state,
        "files": files,
        "versions": versions,
        "schemas": schemas,
        "next_offset": offset,
        "retired": still,
        "runs": with_run(state.get("runs", []), change.get("run"), fresh),
    }


def replaced(state: dict[str, Any], change: dict[str, Any], at: str, *, both: bool) -> dict[str, Any] | None:
    """``both``: records and holes stay as many together, and not the holes alone."""
    files = state["files"]
    listed = {file["id"] for file in files}
    known = listed | {file["id"] for file in state.get("retired", ()) if file["by"] is not None}
    if all(file["id"] in known for file in change["new"]):
        return state
    if not set(change["old"]) <= listed or known & {file["id"] for file in change["new"]}:
        return None
    places = [at for at, file in enumerate(files) if file["id"] in change["old"]]
    old = [files[at] for at in places]
    if places != list(range(places[0], places[-1] + 1)) or [file["id"] for file in old] != change["old"]:
        return None
    for names in (("messages",), ("records", "erased") if both else ("erased",)):
        was, now = (sum(file.get(name, 0) for file in part for name in names) for part in (old, change["new"]))
        if was != now:
            return None
    before, after = rows_together(old), rows_together(change["new"])
    rest = iter(before)
    if (both and not all(row in rest for row in after)) or (not both and before != after):
        return None
    offset, new = old[0]["offset"], []
    for file in change["new"]:
        new.append({**file, "offset": offset})
        offset += file["messages"]
    gone = [{"id": file["id"], "path": file["path"], "by": new[0]["id"], "since": at} for file in old]
    files = [*files[: places[0]], *new, *files[places[-1] + 1 :]]
    gone += left_behind(old, files, at)
    return {**state, "files": files, "retired": [*state.get("retired", ()), *gone]}

"""The rest of the reader written from ``shared/docs/format.md`` alone: section 11.1, what transactions do."""

from __future__ import annotations

from typing import Any


def applied(state: dict[str, Any], transaction: dict[str, Any]) -> dict[str, Any] | None:
    """The state after a transaction; None for one that does not fit. What readers do not need is left out."""
    change = transaction["change"]
    kind = change["kind"]
    if state["closed"]:
        return None
    if kind == "close":
        return {**state, "closed": change["successor"]}
    if kind == "rebase":
        return {
            **state,
            **{name: value for name, value in change["manifest"].items() if name not in ("transaction", "store")},
        }
    if kind == "add_files":
        return added(state, change, transaction["at"])
    if kind == "replace_files":
        return replaced(state, change, both=False)
    if kind == "erase_files":
        erased = replaced(state, change, both=True)
        return None if erased is None else {**erased, "format": 2}
    if kind == "expire_files":
        return expired(state, change)
    return state


def expired(state: dict[str, Any], change: dict[str, Any]) -> dict[str, Any] | None:
    if change["lineage"] != state["lineage"] or change["before"] > state["next_offset"]:
        return None
    left = [file for file in state["files"] if file["offset"] + file["messages"] > change["before"]]
    gone = state["files"][: len(state["files"]) - len(left)]
    if not gone:
        return state
    retired = [{"id": file["id"], "path": file["path"], "by": None} for file in gone]
    return {**state, "files": left, "retired": [*state["retired"], *retired], "format": 2}


def added(state: dict[str, Any], change: dict[str, Any], at: str) -> dict[str, Any] | None:
    files, versions, schemas = list(state["files"]), dict(state["versions"]), dict(state["schemas"])
    listed = {file["id"]: file for file in files}
    retired = {file["id"]: file["by"] for file in state["retired"]}
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
    return {**state, "files": files, "versions": versions, "schemas": schemas, "next_offset": offset}


def replaced(state: dict[str, Any], change: dict[str, Any], *, both: bool) -> dict[str, Any] | None:
    """``both``: records and holes stay as many together, and not the holes alone."""
    files = state["files"]
    listed = {file["id"] for file in files}
    known = listed | {file["id"] for file in state["retired"] if file["by"] is not None}
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
    offset, new = old[0]["offset"], []
    for file in change["new"]:
        new.append({**file, "offset": offset})
        offset += file["messages"]
    gone = [{"id": file["id"], "path": file["path"], "by": new[0]["id"]} for file in old]
    files = [*files[: places[0]], *new, *files[places[-1] + 1 :]]
    return {**state, "files": files, "retired": [*state["retired"], *gone]}

"""The rest of the reader written from ``shared/docs/format`` alone: section 11.1, how runs are merged."""

from __future__ import annotations

from typing import Any

COUNTS = ("files", "messages", "records", "bytes")
KEPT = 50


def with_run(
    runs: list[dict[str, Any]], run: dict[str, Any] | None, files: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """The runs with one that brought these files."""
    if run is None:
        return runs
    known = next((each for each in runs if each["id"] == run["id"]), None)
    made = dict(known or {**run, **(dict.fromkeys(COUNTS, 0) if is_capture(run) else {})})
    fresh = ("status", "updated", "table_version", "activated")
    made |= {name: run[name] for name in fresh if run.get(name) is not None}
    for name in COUNTS:
        made[name] += len(files) if name == "files" else sum(file[name] for file in files)
    if known is not None:
        return [made if each is known else each for each in runs]
    alike = [each for each in runs if is_capture(each) == is_capture(run)]
    return [*(each for each in runs if len(alike) < KEPT or each is not alike[0]), made]


def is_capture(run: dict[str, Any]) -> bool:
    return bool(run.get("kind", "capture") == "capture")

"""Options that have several DataFrames read one view of their streams, in which no atomic run is half."""

from __future__ import annotations

from collections.abc import Mapping

from singerlake.lake import Lake
from singerlake.settings import storage_settings, store_settings
from singerlake.spark.options import ReadOptions, named_as_options
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.atomic.view import StreamView, load_each, view

Given = Mapping[str, str]


@named_as_options()
def in_one_view(wanted: ReadOptions, given: Mapping[str, Given]) -> dict[str, Given]:
    """The options of each stream as they are ``given``, and where they do not say where to end, with the end that it
    has in the view. ``wanted`` says where the lake is. Where the tap has no atomic runs, or only one stream is read,
    they are as they were. Raises as ``Lake.snapshot``."""
    open_ended = [name for name, each in given.items() if not {"to_offset", "as_of"} & {key.lower() for key in each}]
    if len(given) < 2 or not open_ended:
        return dict(given)
    lake = Lake.open(wanted.path, storage_settings(wanted.storage), store_settings(wanted.storage))
    decisions = Decisions(lake.storage, wanted.tap)
    listed = decisions.listed()
    if not listed.names:
        return dict(given)
    # What is not there is for the load to refuse.
    known = frozenset(lake.streams(wanted.tap))
    loads = {name: lake.stream(wanted.tap, name).snapshot for name in open_ended if name in known}
    views = view(decisions, lambda: load_each(loads, near=lake.storage.near), listed)
    return {name: {**each, **_bounds(each, views[name])} if name in views else each for name, each in given.items()}


def _bounds(given: Given, seen: StreamView) -> dict[str, str]:
    names = {name.lower(): value.strip() for name, value in given.items()}
    first = names.get("from_offset", "")
    begins = int(first) if first.isascii() and first.isdigit() else 0
    # An offset behind the view is for the load to refuse if it is behind the stream's end, too.
    found = {"to_offset": str(max(seen.end, begins))}
    if seen.manifest.lineage is not None and "lineage" not in names:
        found["lineage"] = seen.manifest.lineage
    if seen.end <= seen.manifest.floor and "from_offset" not in names:
        # Where all of a stream expired, its DataFrame is empty, as it is without a view.
        found["skip_expired"] = "true"
    return found

"""From the commits that a reader of one stream names to offsets of the stream."""

from __future__ import annotations

from collections.abc import Callable

from singerlake.arrow.plan.request import Request
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.atomic.view import offsets_behind, view_as_of


def bounded(
    storage: Storage, tap: str, stream: str, load: Callable[[], Manifest], request: Request
) -> tuple[Manifest, Request]:
    """The state that ``load`` gives, and ``request`` with offsets instead of commits. Raises what ``load`` and storage
    raise, ``SettingError`` where other offsets that are asked for exclude them, and as ``Lake.snapshot``."""
    if request.as_of is None and request.from_commit is None:
        return load(), request
    decisions, end = Decisions(storage, tap), None
    if request.as_of is None:
        manifest = load()
    else:
        view = view_as_of(decisions, request.as_of, lambda: {stream: load()})[stream]
        manifest, end = view.manifest, view.end
    begin = None
    if request.from_commit is not None:
        begin = offsets_behind(decisions, request.from_commit, {stream: manifest})[stream]
    return manifest, request.between(begin, end)

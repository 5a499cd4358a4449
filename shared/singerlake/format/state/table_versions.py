"""Table versions that records brought and no ACTIVATE_VERSION followed: without it tables keep the rows before them. A
tap that replicates a whole table sends one; a mapper before the lake may drop it."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from singerlake.format.quarantine import is_quarantine
from singerlake.format.state.model import Manifest, Run


class Unactivated(NamedTuple):
    """The first finished capture whose records have ``version``, which no capture activated."""

    run: Run
    version: int


def unactivated(manifest: Manifest) -> Unactivated | None:
    """What the newest finished captures of a stream brought, if no ACTIVATE_VERSION names it; None where there is
    nothing to warn of. A capture that did not finish may have its ACTIVATE_VERSION in the next one. A version that the
    oldest known capture began with may have been activated before it, unless that is the stream's first. A quarantine
    has records of all versions, and no ACTIVATE_VERSION."""
    if is_quarantine(manifest.stream):
        return None
    captures = [run for run in manifest.runs if run.captures]
    activated = {run.activated for run in captures}
    finished = [run for run in captures if run.status == "finished" and run.table_version is not msgspec.UNSET]
    found, before = None, None
    knows_all = sum(run.messages for run in captures) == manifest.next_offset
    for run in finished:
        version = run.table_version
        assert version is not msgspec.UNSET
        if version != before:
            judged = before is not None or knows_all
            found = Unactivated(run, version) if judged and version not in activated else None
        before = version
    return found

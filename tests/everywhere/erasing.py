"""Records erased in lakes of tests, and what of the stream a reader must give then."""

from __future__ import annotations

import json
from collections.abc import Collection

from singerlake.conditions import parse_condition
from singerlake.lake import Lake
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.erase.erase import Erased, erase_messages
from singerlake.upkeep.gc.apply import collect_now
from singerlake.upkeep.vacuum.vacuum import vacuum_stream


def context_of(lake: Lake, tap: str, stream: str) -> StreamContext:
    """What maintenance of the stream works with."""
    return StreamContext(lake.storage, tap, stream, lake.clock, lake.ids, lake.stream(tap, stream).store())


def erase(lake: Lake, tap: str, stream: str, ids: Collection[int], *, now: bool = False, name: str = "id") -> Erased:
    """Erase the records whose ``name`` is one of ``ids``; ``now``: what held them is deleted, too."""
    context = context_of(lake, tap, stream)
    condition = parse_condition(f"{name} in ({', '.join(map(str, ids))})", read=str)
    # Random schemas need not declare it.
    done = erase_messages(context, condition, who="a-test", dry_run=False, undeclared=True)
    assert done.findings == ()
    if now:
        assert collect_now(context, frozenset(each.id for each in done.left if each.id is not None)).findings == ()
    return done


def vacuum(lake: Lake, tap: str, stream: str) -> None:
    """Join all files that can be."""
    assert vacuum_stream(context_of(lake, tap, stream), target_bytes=1 << 30).findings == ()


def holes_of(lake: Lake, tap: str, stream: str) -> list[int]:
    """How many records are erased of each file."""
    return [file.erased for file in lake.stream(tap, stream).snapshot().files]


def ids_in(lines: bytes) -> list[int]:
    """The ids of RECORD messages, each of them with its number."""
    return [json.loads(line)["record"]["id"] for line in lines.splitlines()]

"""``singerlake export``: all that is known of a lake without its data, as one JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click
import msgspec

from singerlake.cli.options import chosen_taps, tap_option, with_lake
from singerlake.cli.output import say_json
from singerlake.clock import timestamp
from singerlake.errors import LakeError
from singerlake.format.metadata.root import TapNotes
from singerlake.format.state.model import Manifest
from singerlake.lake import Lake
from singerlake.upkeep.reports.census import take_census
from singerlake.upkeep.reports.history import versions_of
from singerlake.upkeep.reports.status import last_signs, track
from singerlake.work.parallel import THREADS, in_parallel


@click.command(short_help="Write all that is known of a lake without its data as one JSON document.")
@with_lake
@tap_option
@click.option("--runs", type=click.IntRange(0), default=3, show_default=True, help="How many runs of each stream.")
@click.pass_context
def export(ctx: click.Context, lake: Lake, tap: str | None, runs: int) -> None:
    """Write all metadata of a lake as one JSON document on standard output.

    It has the notes of each tap, and the versions, counts and last runs of each stream, from the manifests. Exits with
    1 if a stream's manifest is missing or cannot be read; the stream's entry says so.
    """
    metadata = lake.root_metadata()
    taps = chosen_taps(lake, tap)
    pairs = [(name, stream) for name in taps for stream in lake.streams(name)]
    states = dict(in_parallel(lambda pair: (pair, _state(lake, *pair)), pairs, threads=THREADS))
    signs = last_signs(state for state in states.values() if isinstance(state, Manifest))
    now = lake.clock.now()

    def described(stream: str, state: Manifest | str) -> dict[str, Any]:
        if isinstance(state, str):
            return {"stream": stream, "trouble": state}
        counts = asdict(take_census(lake.storage, state.tap, stream, lambda: state))
        return {
            **{name: count for name, count in counts.items() if name not in ("tap", "versions")},
            "store": state.store,
            "lineage": state.lineage,
            "transaction": state.transaction.number,
            "floor": state.floor,
            "next_offset": state.next_offset,
            "versions": versions_of(state),
            "runs": track(state, (), signs, now=now, last=runs),
        }

    notes = metadata.taps if metadata else {}
    say_json(
        {
            "lake": lake.storage.url,
            "exported": timestamp(now),
            "lake_id": metadata.lake_id if metadata else None,
            "manifest_store": metadata.manifest_store if metadata else None,
            "taps": [
                {
                    "tap": name,
                    **_said(notes.get(name, TapNotes())),
                    "streams": [described(stream, state) for (each, stream), state in states.items() if each == name],
                }
                for name in taps
            ],
        }
    )
    ctx.exit(1 if any(isinstance(state, str) for state in states.values()) else 0)


def _state(lake: Lake, tap: str, stream: str) -> Manifest | str:
    """The state of a stream, or why there is none."""
    try:
        return lake.stream(tap, stream).state() or "no manifest; run 'singerlake rebuild'"
    except LakeError as error:
        return f"{error.message}; {error.hint}"


def _said(notes: TapNotes) -> dict[str, Any]:
    said: dict[str, Any] = msgspec.to_builtins(notes)
    return said

"""Erasing records from all streams of a tap or a lake that have what a condition names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from singerlake.clock import timestamp
from singerlake.conditions import Condition
from singerlake.errors import SingerlakeError, UnknownNameError, expected_errors
from singerlake.glance import at_a_glance
from singerlake.upkeep.context import LakeContext
from singerlake.upkeep.defaults import GRACE
from singerlake.upkeep.erase.declared import check_somewhere, names_in, similar
from singerlake.upkeep.erase.erase import EraseResult, erase, who_erases
from singerlake.upkeep.result import Failure, Report, reporting
from singerlake.work.engine import Engine


@dataclass(frozen=True, slots=True)
class SkippedStream:
    """A stream no version of which declares a property that the condition names. ``similar`` are those in whose names
    the name of one is."""

    tap: str
    stream: str
    similar: tuple[str, ...]


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class EraseStreamsResult:
    """What was erased from each stream, or with ``dry_run`` would be, by whom and when. ``properties`` are those that
    the condition names, and no value of it is kept. ``skipped`` streams do not have
    what the condition names, and ``failed`` ones stopped no other. Where files still hold what was erased,
    ``left_until`` is the earliest time at which ``gc`` deletes the retired ones, if it runs now and again then.
    ``tables`` hold it until ``project run`` has made them anew and ``project gc`` has deleted their files of before."""

    lake: str
    dry_run: bool
    properties: tuple[str, ...]
    by: str
    started: str
    ended: str
    left_until: str | None
    tables: tuple[str, ...]
    streams: tuple[EraseResult, ...]
    skipped: tuple[SkippedStream, ...]
    failed: tuple[Failure, ...]

    @property
    def is_clean(self) -> bool:
        """Whether every stream was looked into as a whole."""
        return not self.failed and not any(one.error or one.findings for one in self.streams)


def erase_streams(
    lake: LakeContext,
    condition: Condition,
    tap: str | None,
    stream: str | None,
    *,
    now: bool,
    dry_run: bool,
    undeclared: bool,
    engine: Engine | None,
    progress: Report | None,
    erased: Callable[[EraseStreamsResult], object],
) -> EraseStreamsResult:
    """Erase from the streams that are meant. ``erased`` is called with what was done so far, after each. Raises the
    error of a stream where it is the only one, and ``UnknownNameError`` where none has what the condition names."""
    started, by = timestamp(lake.clock.now()), who_erases()
    pairs = lake.chosen(tap, stream)
    if not undeclared:
        check_somewhere(condition, lake, pairs)
    outcomes: list[EraseResult | SkippedStream | Failure] = []

    def result() -> EraseStreamsResult:
        done = tuple(one for one in outcomes if isinstance(one, EraseResult))
        ended = lake.clock.now()
        waiting = any(file.retired for one in done for file in one.left)
        return EraseStreamsResult(
            lake=lake.storage.url,
            dry_run=dry_run,
            properties=names_in(condition),
            by=by,
            started=started,
            ended=timestamp(ended),
            left_until=timestamp(ended + GRACE) if waiting else None,
            tables=tuple(dict.fromkeys(name for one in done if one.messages for name in one.tables)),
            streams=done,
            skipped=tuple(one for one in outcomes if isinstance(one, SkippedStream)),
            failed=tuple(one for one in outcomes if isinstance(one, Failure)),
        )

    for name, each in pairs:
        bar = reporting(progress, f"{name}/{each}")
        try:
            with expected_errors(tap=name, stream=each):
                one = erase(
                    lake.stream(name, each).context(),
                    condition,
                    now=now,
                    dry_run=dry_run,
                    tables_from=lake.tables_from,
                    undeclared=undeclared,
                    engine=engine,
                    progress=bar,
                )
            outcomes.append(one)
        except UnknownNameError:
            state = lake.stream(name, each).state()
            outcomes.append(SkippedStream(name, each, similar(condition, state) if state is not None else ()))
        except SingerlakeError as error:
            if len(pairs) == 1:
                raise
            outcomes.append(Failure(name, each, error))
        erased(result())
    return result()

"""What ``erase`` and ``drop --run`` do with one stream, and how they tell it."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from singerlake.cli.options import context_of
from singerlake.cli.output import counted, error_json, files, finding_json, shown
from singerlake.conditions import Condition
from singerlake.errors import SingerlakeError, expected_errors
from singerlake.lake import Lake
from singerlake.tables.state.commit import tables_from
from singerlake.upkeep.erase.attached import LeftObject
from singerlake.upkeep.erase.erase_stream import Erased, Trace, erase_messages
from singerlake.upkeep.erase.matcher_cache import Meant
from singerlake.upkeep.file_count import NONE, Tally
from singerlake.upkeep.gc.apply import collect_now
from singerlake.upkeep.progress import Progress
from singerlake.upkeep.record_run import record_run
from singerlake.upkeep.verify.findings import Finding
from singerlake.work.engine import Engine

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Erasure:
    """What was done to a stream, or without ``delete`` would be. ``left`` are the files that still hold what was
    ``meant``, and ``unowned`` attached files that no record has; ``deleted`` are those that went at once, with the
    attached ones among them; ``failed`` is why not all of them did. ``tables`` are made from the stream."""

    tap: str
    stream: str
    meant: Meant
    delete: bool
    now: bool
    done: Erased
    left: tuple[Trace, ...]
    unowned: tuple[LeftObject, ...]
    deleted: Tally
    deleted_attached: Tally
    findings: tuple[Finding, ...]
    failed: SingerlakeError | None
    tables: tuple[str, ...]


def erase_from(
    lake: Lake,
    tap: str,
    stream: str,
    meant: Meant,
    *,
    delete: bool,
    now: bool,
    undeclared: bool = False,
    engine: Engine,
    progress: Progress,
    committed: Callable[[], object] = lambda: None,
) -> Erasure:
    """Erase what is ``meant`` from a stream; without ``delete`` only look. ``now``: delete the files that held it, and
    the attached files of what was erased. ``committed`` is called when something was erased: an error does not undo it.
    Raises as ``erase_messages``, and what storage raises."""
    there, started = lake.existing_stream(tap, stream), lake.clock.now()
    with expected_errors(tap=tap, stream=stream):
        context = context_of(there, there.store())
        done = erase_messages(
            context,
            meant,
            who=_who(),
            dry_run=not delete,
            undeclared=undeclared,
            engine=engine,
            progress=progress,
            committed=committed,
        )
        if delete and done.messages:
            record_run(context, "erase", done.replaced, records=done.records, started=started)
        deleted, attached, failed, findings = NONE, NONE, None, done.findings
        gone: frozenset[str] = frozenset()
        if now:
            try:
                held = frozenset(trace.id for trace in done.left if trace.id is not None)
                collected = collect_now(context, held | done.objects)
                deleted, attached = collected.deleted, collected.deleted_attached
                gone = frozenset(collected.keys)
                findings += collected.findings
            except SingerlakeError as error:
                # What was erased is erased.
                failed = error
        left = tuple(trace for trace in done.left if not now or trace.id is None or lake.storage.head(trace.key))
        tables = tables_from(lake.storage, tap).get(stream, ())
        unowned = tuple(each for each in done.unowned if each.key not in gone)
        return Erasure(
            tap, stream, meant, delete, now, done, left, unowned, deleted, attached, findings, failed, tables
        )


def _who() -> str:
    """Who erases, as the new files say it for as long as they are there."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "unknown"
    # The environment may hold bytes that are no text, and the new files hold nothing else.
    return f"{user}@{socket.gethostname()}"[:200].encode("utf-8", "replace").decode()


def told(one: Erasure) -> list[str]:
    """One line for what goes, one for each kind of what stays."""
    done = one.done
    verb = "erased" if isinstance(one.meant, Condition) else "dropped"
    where = f"{len(done.traces):,} of {counted(done.looked.files, 'file')}"
    what = f"{_amount(one, done.traces)} {verb if one.delete else f'would be {verb}'} in {where}"
    if done.attached.files:
        what += f", with {files(done.attached, done.attached)}"
    lines = [f"{shown(one.tap)}/{shown(one.stream)}: {what}"]
    if not one.delete:
        lines += _traces(one, done.traces)
    if isinstance(one.meant, Condition):
        unmet = one.meant.entries - len(done.entries)
        if unmet and one.meant.entries > 1:
            lines.append(f"  no record holds {unmet:,} of {counted(one.meant.entries, 'value')}")
    if one.now:
        lines.append(f"  deleted: {files(one.deleted, one.deleted_attached)}")
    retired = tuple(trace for trace in one.left if trace.id is not None)
    if retired:
        lines.append(f"  {_still(one, retired)} until 'singerlake gc --delete' has run twice, a grace time apart")
        lines += [] if one.delete else _traces(one, retired)
    unlisted = tuple(trace for trace in one.left if trace.id is None)
    if unlisted:
        lines.append(
            f"  {_still(one, unlisted)}, which nothing lists: a run at work may; see 'singerlake gc --orphans'"
        )
        lines += _traces(one, unlisted)
    lines += _unowned(one.unowned)
    if done.messages and one.tables:
        again = "are made anew by" if one.delete else "would be made anew by"
        lines.append(f"  tables made from it {again} their next run: {', '.join(map(shown, one.tables))}")
    return lines


def _unowned(left: tuple[LeftObject, ...]) -> list[str]:
    """Attached files that no record has, named: of what is in them nobody can tell whose it was."""
    lines = []
    for retired, why in (
        (True, "until 'singerlake gc --delete' has run twice, a grace time apart"),
        (False, "and nothing lists {them}: a run at work may; see 'singerlake gc --orphans'"),
    ):
        those = [each for each in left if (each.id is not None) is retired]
        if those:
            are, them = ("is", "it") if len(those) == 1 else ("are", "them")
            what = f"{counted(len(those), 'attached file')} that no record has {are} still stored"
            lines.append(f"  {what}, {why.format(them=them)}")
            lines += [f"    {shown(each.key)}" for each in those[:_SHOWN]]
            lines += [f"    and {len(those) - _SHOWN:,} more, which --json names"] if len(those) > _SHOWN else []
    return lines


def failure(one: Erasure) -> str:
    """The line that says what failed after all was erased."""
    verb = "erased" if isinstance(one.meant, Condition) else "dropped"
    return f"{shown(one.tap)}/{shown(one.stream)}: {verb}, and then failed: {shown(str(one.failed))}"


def _amount(one: Erasure, traces: tuple[Trace, ...]) -> str:
    if isinstance(one.meant, Condition):
        return counted(sum(trace.records for trace in traces), "record")
    return counted(sum(trace.messages for trace in traces), "message")


def _still(one: Erasure, traces: tuple[Trace, ...]) -> str:
    amount = _amount(one, traces)
    return f"{amount} {'is' if amount.startswith('1 ') else 'are'} still in {counted(len(traces), 'file')}"


def _traces(one: Erasure, traces: tuple[Trace, ...]) -> list[str]:
    lines = [f"    {shown(trace.key)}: {_amount(one, (trace,))}" for trace in traces[:_SHOWN]]
    if len(traces) > _SHOWN:
        lines.append(f"    and {len(traces) - _SHOWN:,} more, which --json names")
    return lines


def as_json(one: Erasure) -> dict[str, Any]:
    """The same for programs."""
    return {
        "tap": one.tap,
        "stream": one.stream,
        "messages": one.done.messages,
        "records": one.done.records,
        "files": [_trace_json(trace) for trace in one.done.traces],
        "looked": asdict(one.done.looked),
        "left": [{**_trace_json(trace), "retired": trace.id is not None} for trace in one.left],
        "values_held": sorted(one.done.entries),
        "attached": asdict(one.done.attached),
        "unowned": [{"key": each.key, "bytes": each.bytes, "retired": each.id is not None} for each in one.unowned],
        "deleted": asdict(one.deleted),
        "deleted_attached": asdict(one.deleted_attached),
        "tables": one.tables,
        "findings": [finding_json(finding) for finding in one.findings],
        "error": error_json(one.failed) if one.failed else None,
    }


def _trace_json(trace: Trace) -> dict[str, Any]:
    return {"key": trace.key, "messages": trace.messages, "records": trace.records}

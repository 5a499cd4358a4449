"""Expiring the oldest files of one stream, on demand or by its policy: they are listed no more, and offsets stay.

Retired files are deleted by a collection, at once where that is asked for. The rules are in section 12.3 of
``shared/docs/format``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from singerlake.errors import SettingError, SingerlakeError, expected_errors
from singerlake.format import layout
from singerlake.format.lines.times import known_span
from singerlake.format.metadata.retention import Retention
from singerlake.format.state.attached_objects import paths_in
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import ExpireFiles
from singerlake.glance import at_a_glance
from singerlake.storage.probe import storage_time
from singerlake.stores.port import Loaded
from singerlake.upkeep.checks import AttachedObject, attached_objects
from singerlake.upkeep.context import StreamContext, commit_change, record_run
from singerlake.upkeep.gc.apply import Collected, collected_now
from singerlake.upkeep.gc.plan import CollectionPlan, Replaced
from singerlake.upkeep.policy import rule_of
from singerlake.upkeep.result import FOR_PYTHON, NONE, Finding, Tally, tally


@at_a_glance
@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireResult:
    """What expired, or with ``dry_run`` would: the files ``expired`` with ``records`` in them, and the ``attached``
    files that no other record has. ``keys`` are those of their objects; the stream begins at offset ``floor`` then.
    ``undated`` is the file whose times are unknown, so that nothing from it on expires by age. ``deleted`` are the
    objects that went at once, with the attached files among them. ``error`` is why not all of them did."""

    tap: str
    stream: str
    expired: Tally
    attached: Tally
    records: int
    floor: int
    keys: tuple[str, ...]
    undated: str | None
    deleted: Tally
    deleted_attached: Tally
    findings: tuple[Finding, ...]
    error: SingerlakeError | None
    dry_run: bool = field(metadata=FOR_PYTHON)
    now: bool = field(metadata=FOR_PYTHON)


def expire(
    context: StreamContext,
    *,
    older_than: str | None,
    keep_versions: int | None,
    before_offset: int | None,
    now: bool,
    dry_run: bool,
) -> ExpireResult:
    """Expire messages of a stream, and with ``now`` delete their files. Raises as ``expire_messages``."""
    retention = rule_of(older_than, keep_versions)
    if (retention is None) == (before_offset is None):
        raise SettingError(
            "what expires is not clear", hint="give older_than or keep_versions or both, or before_offset alone"
        )
    storage, started = context.storage, context.clock.now()
    with expected_errors(tap=context.tap, stream=context.stream):
        moment = context.clock.now() if dry_run else storage_time(storage, ids=context.ids)
        cut = Cut(before=before_offset, retention=retention, now=moment)
        done = expire_messages(context, cut, dry_run=dry_run)
    if not dry_run and done.files.files:
        record_run(context, "expire", done.files, records=done.records, started=started)
    collected, failed = collected_now(context, frozenset(done.ids)) if now else (Collected(CollectionPlan()), None)
    return ExpireResult(
        tap=context.tap,
        stream=context.stream,
        expired=done.files,
        attached=done.attached,
        records=done.records,
        floor=done.floor,
        keys=done.keys,
        undated=done.undated,
        deleted=collected.deleted,
        deleted_attached=collected.deleted_attached,
        findings=collected.findings,
        error=failed,
        dry_run=dry_run,
        now=now,
    )


_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class Cut:
    """Up to where messages expire: ``before`` an offset, or by a ``retention`` at the time ``now``."""

    before: int | None = None
    retention: Retention | None = None
    now: datetime | None = None


@dataclass(frozen=True, slots=True)
class Expired:
    """What expired, or with ``dry_run`` would: ``files`` with ``records`` in them, and ``attached`` files that no other
    record has. The stream begins at ``floor`` then. ``ids`` are those of all retired files that hold what expired, and
    of these attached ones. ``undated``: the file of unknown times, which with all behind it does not expire by age."""

    files: Tally = NONE
    attached: Tally = NONE
    records: int = 0
    floor: int = 0
    ids: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    undated: str | None = None


def expire_messages(context: StreamContext, cut: Cut, *, dry_run: bool) -> Expired:
    """Expire the messages of a stream up to ``cut``, or with ``dry_run`` say what that would take. Raises
    ``SettingError`` for an offset beyond the stream's end, as ``StreamContext.load_open``, ``TooManyConflictsError``,
    ``UnknownOutcomeError``, and what storage and store raise."""
    for _ in range(_ATTEMPTS):
        loaded = context.load_open()
        if loaded is None:
            return Expired()
        manifest = loaded.manifest
        before, undated = cut_offset(manifest, cut)
        plan = plan_expiry(manifest, before, undated, context.prefix)
        if dry_run or not plan.files.files:
            return plan
        assert manifest.lineage is not None
        change = ExpireFiles(before=before, lineage=manifest.lineage)
        outcome = commit_change(context, loaded, change, who="singerlake expire")
        if isinstance(outcome, Loaded):
            context.store.publish(outcome, run_ended=True)
            return _done(plan, manifest, outcome.manifest, context.prefix)
    message = "the stream kept being changed; nothing expired"
    raise context.overtaken(message, "run again when rebuild and drop are done")


def plan_expiry(
    manifest: Manifest, before: int, undated: str | None, prefix: str, after: Manifest | None = None
) -> Expired:
    """What expires of a state by ``expire_files`` with ``before``; ``after`` is the state then, if known. Pure."""
    kept = manifest.files.index_behind(before)
    gone = manifest.files[:kept]
    attached = _only_in(gone, after.files if after else manifest.files.replaced(0, kept, ()))
    names = [layout.attached_name_in(each.path) for each in attached]
    return Expired(
        files=tally(file.bytes for file in gone),
        attached=tally(each.bytes for each in attached),
        records=sum(file.records for file in gone),
        floor=manifest.files[kept].offset if kept < len(manifest.files) else manifest.next_offset,
        ids=(*(file.id for file in gone), *(name for name in names if name is not None)),
        keys=tuple(prefix + path for path in (*(file.path for file in gone), *(each.path for each in attached))),
        undated=undated,
    )


def _only_in(gone: Sequence[DataFile], rest: Iterable[DataFile]) -> list[AttachedObject]:
    """The attached files of ``gone`` that ``rest`` does not have."""
    attached = attached_objects(gone)
    kept = paths_in(rest) if attached else set()
    return [each for path, each in attached.items() if path not in kept]


def _done(plan: Expired, before: Manifest, after: Manifest, prefix: str) -> Expired:
    """What expired of ``before``, by the state ``after`` it: a vacuum may have joined files meanwhile."""
    if after.lineage != before.lineage:
        return plan
    done = plan_expiry(before, after.floor, plan.undated, prefix, after)
    replaced = Replaced(after)
    expired = {replaced.end_of(gone) for gone in map(after.retired_by_id.get, done.ids) if gone is not None}
    return replace(done, ids=tuple(gone.id for gone in after.retired if replaced.end_of(gone) in expired))


def cut_offset(manifest: Manifest, cut: Cut) -> tuple[int, str | None]:
    """The offset before which messages expire, and the path of the file whose unknown times ended the search by age.
    Pure. Raises ``SettingError``."""
    if cut.before is not None:
        if cut.before > manifest.next_offset:
            raise SettingError(
                f"offset {cut.before} is beyond the stream's end, {manifest.next_offset}",
                hint="name an offset of the stream; 'singerlake versions' shows where versions begin",
                tap=manifest.tap,
                stream=manifest.stream,
            )
        return cut.before, None
    retention = cut.retention or Retention()
    old, undated = _old(manifest, retention, cut.now)
    return max(old, _of_old_versions(manifest, retention)), undated


def _old(manifest: Manifest, retention: Retention, now: datetime | None) -> tuple[int, str | None]:
    if retention.age is None or now is None:
        return 0, None
    oldest = now - retention.age
    end = manifest.floor
    for file in manifest.files:
        last = _last(file)
        if last is None:
            return end, file.path
        if last >= oldest:
            break
        end = file.end
    return end, None


def _last(file: DataFile) -> datetime | None:
    span = known_span(file.first, file.last)
    return None if span is None else span[1]


def _of_old_versions(manifest: Manifest, retention: Retention) -> int:
    if retention.keep_versions is None:
        return 0
    begins = sorted((each.first_offset for each in manifest.schemas.values()), reverse=True)
    kept = begins[: max(1, retention.keep_versions)]
    return kept[-1] if len(kept) == retention.keep_versions else 0

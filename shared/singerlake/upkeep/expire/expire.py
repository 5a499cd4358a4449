"""Expiring the oldest messages of one stream on demand; a collection does it by the stream's policy."""

from __future__ import annotations

from dataclasses import dataclass, field

from singerlake.errors import SettingError, SingerlakeError, expected_errors
from singerlake.storage.probe import storage_time
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.expire.expire_stream import Cut, expire_messages
from singerlake.upkeep.expire.policy import rule_of
from singerlake.upkeep.file_count import NONE, Tally
from singerlake.upkeep.gc.apply import collect_now
from singerlake.upkeep.record_run import record_run
from singerlake.upkeep.result import FOR_PYTHON
from singerlake.upkeep.verify.findings import Finding


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
    deleted, attached, failed = NONE, NONE, None
    findings: tuple[Finding, ...] = ()
    if now:
        try:
            collected = collect_now(context, frozenset(done.ids))
            deleted, attached = collected.deleted, collected.deleted_attached
            findings = collected.findings
        except SingerlakeError as error:
            # What expired has expired.
            failed = error
    return ExpireResult(
        tap=context.tap,
        stream=context.stream,
        expired=done.files,
        attached=done.attached,
        records=done.records,
        floor=done.floor,
        keys=done.keys,
        undated=done.undated,
        deleted=deleted,
        deleted_attached=attached,
        findings=findings,
        error=failed,
        dry_run=dry_run,
        now=now,
    )

"""Which messages of a stream a moment means: those that readers could see then, as far as the lake says it.

An atomic run says when it was committed. Of other runs each data file says when it was begun; its commit comes when the
file is closed. A file that a vacuum or an erasure made says of each file that it took the place of when that was begun,
within 128 seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from singerlake.clock import parse_timestamp
from singerlake.errors import SettingError
from singerlake.format import layout
from singerlake.format.decision import Decision
from singerlake.format.extra_fields import read_header, read_provenance
from singerlake.format.file_id import is_timed, made_by
from singerlake.format.lines.times import known_span
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest
from singerlake.storage.port import Storage
from singerlake.stores.atomic.decisions import Decisions
from singerlake.stores.atomic.view import taken_place

Head = Callable[[DataFile], bytes]
"""Gives a data file from its first byte to its first message."""
_LEAST_HEAD = 1 << 10


def moment_of(named: str | datetime) -> datetime:
    """The moment that is named; one without a zone is UTC. Raises ``SettingError``."""
    found = parse_timestamp(named) if isinstance(named, str) else named
    if found is None:
        raise SettingError(f"{named!r} is not a moment", hint="write it as 2026-03-01T00:00Z")
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def offset_at(storage: Storage, manifest: Manifest, moment: datetime) -> int:
    """The offset before which the stream ended at ``moment``. Raises ``MissingFileError`` and what storage raises."""
    prefix = layout.stream_prefix(manifest.tap, manifest.stream)

    def head(file: DataFile) -> bytes:
        first = file.members[0][0] if file.members else file.bytes
        return storage.read_range(prefix + file.path, 0, max(first, _LEAST_HEAD))

    decisions = Decisions(storage, manifest.tap)
    commits = taken_place(decisions, decisions.listed().names)
    return end_at(manifest, moment, head, commits)


def end_at(manifest: Manifest, moment: datetime, head: Head, commits: Iterable[Decision]) -> int:
    """The same, of atomic runs that took place. Files come in the order of their commits: with the first one that was
    begun later ends what there was."""
    end, last = manifest.floor, None
    for file in manifest.files:
        cut = _begun_later(file, moment, head)
        end = file.end if cut is None else cut
        if cut is not None:
            break
        last = file
    if last is not None and last.end == end and _is_open(manifest, last, moment, head):
        end = last.offset
    for decision in commits:
        brought = decision.streams.get(manifest.stream)
        at = parse_timestamp(decision.at)
        if brought is not None and brought.lineage == manifest.lineage and at is not None and at > moment:
            end = min(end, brought.offset)
    return max(end, manifest.floor)


def _begun_later(file: DataFile, moment: datetime, head: Head) -> int | None:
    """The offset at which begins what ``file`` holds of files that were begun after ``moment``; None: it holds none."""
    if is_timed(file.id) and made_by(file.id) <= moment:
        # One that took the place of others is younger than all that it holds.
        return None
    said = head(file)
    header, joined = read_header(said), read_provenance(said)
    created = parse_timestamp(header.created) if header is not None else None
    replaces = joined.replaces if joined is not None and joined.messages == file.messages else ()
    if created is None and replaces and all(is_timed(original) for original, _ in replaces):
        offset = file.offset
        for original, messages in replaces:
            if made_by(original) > moment:
                return offset
            offset += messages
        return None
    span = known_span(file.first, file.last)
    begun = created or (span[0] if span is not None else None)
    return file.offset if begun is not None and begun > moment else None


def _is_open(manifest: Manifest, file: DataFile, moment: datetime, head: Head) -> bool:
    """Whether ``file``, the last one that was begun by ``moment``, may not have been committed by then: its run was at
    work, as far as it is remembered."""
    header = read_header(head(file))
    run = next((run for run in manifest.runs if header is not None and run.id == header.run), None)
    ended = parse_timestamp(run.updated) if run is not None else None
    return ended is not None and ended > moment

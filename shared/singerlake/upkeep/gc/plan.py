"""Which step of collection each file of one stream may take, from its states and a listing alone.

The steps, and what each waits for, are in section 12 of ``shared/docs/format``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from singerlake.clock import parse_timestamp
from singerlake.format import layout
from singerlake.format.state.attached_objects import paths_in
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest, Retired
from singerlake.scratch import ListedPaths
from singerlake.storage.port import Entry
from singerlake.upkeep.result import NONE, Tally, tally

_NEVER = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Garbage:
    """A retired file whose time has come. ``entry`` is its object, None where there is none; ``holder`` the listed
    file that its messages are in now, None for an orphan and where the messages expired."""

    file: Retired
    entry: Entry | None
    holder: DataFile | None


@dataclass(frozen=True, slots=True)
class CollectionPlan:
    """What collection is to do in a stream. ``orphans`` may be retired; ``young`` are unlisted files that may be a
    writer's at work, ``newer`` those that are younger than all listed ones. ``missing`` are listed and have no object,
    and neither have the attached files at the paths ``lost``. While there are any of these three, there are no orphans.
    ``left`` are unlisted files that are never orphans: older than the lineage, or with an id that another file has. Of
    retired files, ``shown`` (ids) were found in ``manifest.json``, ``due`` are to be deleted, the objects ``again``
    should have been, ``forgotten`` (ids) are gone for long, and those ``waiting`` have to, the first of them until
    ``until``. ``late`` are attached files that should have been deleted so long ago that they begin anew. ``stuck``
    are replaced and lead to no file that is known. ``left_attached`` and ``waiting_attached`` are the attached
    files among ``left`` and ``waiting``; ``since`` says of retired ones since when they are."""

    orphans: tuple[Entry, ...] = ()
    young: Tally = NONE
    left: Tally = NONE
    left_attached: Tally = NONE
    newer: tuple[Entry, ...] = ()
    missing: tuple[DataFile, ...] = ()
    lost: tuple[str, ...] = ()
    shown: tuple[str, ...] = ()
    due: tuple[Garbage, ...] = ()
    again: tuple[Garbage, ...] = ()
    late: tuple[Entry, ...] = ()
    forgotten: tuple[str, ...] = ()
    waiting: Tally = NONE
    waiting_attached: Tally = NONE
    until: datetime | None = None
    stuck: tuple[Retired, ...] = ()
    since: Mapping[str, str] = field(default_factory=dict)

    @property
    def deleted(self) -> Tally:
        return tally(entry.size for entry in self.going)

    @property
    def going(self) -> tuple[Entry, ...]:
        return tuple(garbage.entry for garbage in (*self.due, *self.again) if garbage.entry)


@dataclass(slots=True)
class _Objects:
    """What a listing shows of a stream: which paths of retired files are listed, the objects of the others by path, the
    data files nothing knows, those that are named as known ones or by no id, the listed ones that are not there, and
    when the newest of the others was made."""

    listed: set[str]
    retired: dict[str, Entry] = field(default_factory=dict)
    unknown: list[Entry] = field(default_factory=list)
    named: list[Entry] = field(default_factory=list)
    missing: tuple[DataFile, ...] = ()
    lost: tuple[str, ...] = ()
    newest: datetime = _NEVER


def make_plan(
    newest: Manifest, entries: Iterable[Entry], *, now: datetime, grace: timedelta, only: Collection[str] | None = None
) -> CollectionPlan:
    """The plan for a stream in the state ``newest``, which ``manifest.json`` shows, or a later one. ``entries`` are the
    objects below the stream's folder; ``now`` is the storage's clock. ``only``: of retired files those with these
    ids. Raises what ``ListedPaths`` and the state's segments raise."""
    objects = _objects(newest, entries)
    old, young, ancient = _by_age(objects.unknown, moment(newest.created), now - grace)
    if not objects.named and not any(layout.file_id_in(entry.key) for entry in ancient):
        # Attached files alone are left of records that were erased, or of what a killed writer began.
        old, ancient = [*ancient, *old], []
    orphans = tuple(_alone(old))
    alone = set(orphans)
    left = [*ancient, *objects.named, *(entry for entry in old if entry not in alone)]
    newer = tuple(entry for entry in old if entry.last_modified > objects.newest)
    replaced = Replaced(newest)
    taken: set[str] = set()
    due: list[Garbage] = []
    stuck: list[Retired] = []
    shown: list[str] = []
    again: list[Garbage] = []
    late: list[Entry] = []
    gone: list[Retired] = []
    waiting, attached, until = NONE, NONE, None
    for file in newest.retired:
        if file.id in replaced.listed or file.id in taken or file.path in objects.listed:
            # No transaction leads to such a state; listed files stay in any case.
            continue
        if only is not None and file.id not in only:
            continue
        taken.add(file.id)
        entry = objects.retired.get(file.path)
        holder = replaced.holder_of(file)
        if file.deleted is not None:
            if entry is not None and replaced.is_stuck(file):
                stuck.append(file)
            elif entry is not None and _is_late(file, now=now, grace=grace):
                late.append(entry)
                waiting += Tally(1, entry.size)
                attached += Tally(1, entry.size)
                until = now + grace if until is None else min(until, now + grace)
            elif entry is not None:
                again.append(Garbage(file, entry, holder))
            elif moment(file.deleted) <= now - grace:
                gone.append(file)
            continue
        if file.shown is None:
            shown.append(file.id)
        if file.shown is None or moment(file.shown) > now - grace:
            one = Tally(1, entry.size if entry else 0)
            waiting += one
            attached += one if layout.attached_name_in(file.path) is not None else NONE
            soonest = (now if file.shown is None else min(moment(file.shown), now)) + grace
            until = soonest if until is None else min(until, soonest)
            continue
        if replaced.is_stuck(file):
            stuck.append(file)
        else:
            due.append(Garbage(file, entry, holder))
    return CollectionPlan(
        orphans=() if newer or objects.missing or objects.lost else orphans,
        young=tally(entry.size for entry in young),
        left=tally(entry.size for entry in left),
        left_attached=attached_among(left),
        newer=newer,
        missing=objects.missing,
        lost=objects.lost,
        shown=tuple(shown),
        due=tuple(due),
        again=tuple(again),
        late=tuple(late),
        forgotten=_forgettable(newest, gone),
        waiting=waiting,
        waiting_attached=attached,
        until=until,
        stuck=tuple(stuck),
        since={file.id: file.since for file in newest.retired if layout.attached_name_in(file.path) == file.id},
    )


def _is_late(file: Retired, *, now: datetime, grace: timedelta) -> bool:
    """Whether a retired file is an attached one that was to be deleted half a grace time ago. Another collector may see
    it gone, and forget it, while the request that deletes it is under way; then its name is free, and a writer may have
    put the same bytes there. Without a grace time whoever collects has said that nobody is at work."""
    if not grace or file.deleted is None or layout.attached_name_in(file.path) is None:
        return False
    return moment(file.deleted) <= now - grace / 2


def _objects(manifest: Manifest, entries: Iterable[Entry]) -> _Objects:
    prefix = layout.stream_prefix(manifest.tap, manifest.stream)
    files = manifest.files
    listed = ListedPaths()
    for file in files:
        listed.add(file.path)
    attached = paths_in(files)
    gone = {file.path for file in manifest.retired}
    objects = _Objects(gone & attached | {path for path in gone if path in listed})
    unlisted: list[tuple[str | None, Entry]] = []
    for entry in entries:
        path = entry.key[len(prefix) :]
        if listed.show(path):
            objects.newest = max(objects.newest, entry.last_modified)
        elif path in attached:
            attached.remove(path)
        elif layout.attached_name_in(path) is None and not layout.is_data_file(path):
            continue
        elif path in gone:
            objects.retired[path] = entry
        else:
            unlisted.append((id_in(path), entry))
    known = files.with_ids(id for id, _ in unlisted if id is not None)
    for id, entry in unlisted:
        is_known = id is None or id in known or id in manifest.retired_by_id
        (objects.named if is_known else objects.unknown).append(entry)
    if not listed.all_shown:
        objects.missing = tuple(file for file in files if not listed.is_shown(file.path))
    objects.lost = tuple(sorted(attached))
    return objects


def id_in(path: str) -> str | None:
    """The identity that the name of an object carries, of a data file or of an attached one."""
    return layout.attached_name_in(path) or layout.file_id_in(path)


def attached_among(entries: Iterable[Entry]) -> Tally:
    return tally(entry.size for entry in entries if layout.is_attached_key(entry.key))


def _alone(entries: Sequence[Entry]) -> Iterator[Entry]:
    """Those whose names carry an id that no other's does."""
    counts = Counter(layout.file_id_in(entry.key) for entry in entries)
    # No two attached files have one name.
    return (entry for entry in entries if (id := layout.file_id_in(entry.key)) is None or counts[id] == 1)


def _by_age(
    entries: Iterable[Entry], created: datetime, before: datetime
) -> tuple[list[Entry], list[Entry], list[Entry]]:
    """What was last modified by ``before``, what later, and what before the lineage: a rebuild left that out."""
    old: list[Entry] = []
    young: list[Entry] = []
    ancient: list[Entry] = []
    for entry in entries:
        if entry.last_modified > before:
            young.append(entry)
        elif entry.last_modified >= created:
            old.append(entry)
        else:
            ancient.append(entry)
    return old, young, ancient


def _forgettable(manifest: Manifest, gone: list[Retired]) -> tuple[str, ...]:
    """Those that no other retired file needs on its way to a listed one, however many it leads over."""
    ids = {file.id for file in gone}
    needed: set[str] = set()
    for file in manifest.retired:
        step = None if file.id in ids else file.by
        while step is not None and step not in needed:
            needed.add(step)
            following = manifest.retired_by_id.get(step)
            step = following.by if following else None
    return tuple(file.id for file in gone if file.id not in needed)


def moment(text: str) -> datetime:
    """A time that a manifest names. What names none is taken for the latest there is, so that nothing is due by it."""
    return parse_timestamp(text) or datetime.max.replace(tzinfo=UTC)


class Replaced:
    """The retired files of a state, and those that replaced them; ``listed`` are the listed ones among both, by id."""

    def __init__(self, manifest: Manifest) -> None:
        self._retired = manifest.retired_by_id
        ids = {id for file in manifest.retired for id in (file.id, file.by) if id is not None}
        self.listed = manifest.files.with_ids(ids)

    def holder_of(self, file: Retired) -> DataFile | None:
        """The listed file that holds a replaced file's messages now, found over files that were replaced in turn; None
        where the way leads to none."""
        end = self.end_of(file)
        return self.listed.get(end) if end is not None else None

    def is_stuck(self, file: Retired) -> bool:
        """Whether a replaced file leads nowhere: neither to a listed file nor to one whose messages expired."""
        end = self.end_of(file)
        return end is None or not (end in self.listed or end in self._retired)

    def end_of(self, file: Retired) -> str | None:
        """The id at which a retired file's way over files that were replaced in turn ends; None where it goes round."""
        seen: set[str] = set()
        id, by = file.id, file.by
        while by is not None:
            if id in seen:
                return None
            seen.add(id)
            id = by
            before = None if id in self.listed else self._retired.get(id)
            by = before.by if before else None
        return id

"""What a transaction changes in PostgreSQL's tables: found from the states before and after it, written in one go.

A change of files costs what it changes; only a state that is put in place as a whole is compared file by file.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from singerlake.format.exact_json import ascii_json
from singerlake.format.state import transactions as tx
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.model import Manifest, Retired
from singerlake.stores.numbered import Record
from singerlake.stores.postgres.connection import Connection, driver
from singerlake.stores.postgres.errors import not_the_state

if TYPE_CHECKING:
    import psycopg

T = TypeVar("T")
Files = Iterable[DataFile]

_PAGE = 2000


@dataclass(frozen=True, kw_only=True, slots=True)
class Delta:
    """Rows that change, in the order of their change: files that lose their reference, retired ones that are forgotten
    (ids), files that get a reference, files that are without one from now on, retired ones that took a step."""

    unlisted: Sequence[DataFile] = ()
    forgotten: Sequence[str] = ()
    listed: Sequence[DataFile] = ()
    retired: Sequence[Retired] = ()
    marked: Sequence[Retired] = ()


def delta(before: Manifest, after: Manifest, change: tx.Change) -> Delta:
    """What ``change`` did to the files, in the table's terms."""
    if isinstance(change, (tx.RecordRun, tx.Close)):
        return Delta()
    if isinstance(change, tx.AddFiles | tx.AddTogether | tx.CommitFiles):
        # Objects of attached files that are listed again.
        back = [] if after.retired is before.retired else before.retired
        return Delta(
            listed=after.files[len(before.files) :],
            forgotten=[file.id for file in back if file.id not in after.retired_by_id],
        )
    if isinstance(change, tx.ExpireFiles):
        gone = len(before.files) - len(after.files)
        return Delta(unlisted=before.files[:gone], retired=after.retired[len(before.retired) :])
    if isinstance(change, tx.RetireFiles):
        return Delta(retired=after.retired[len(before.retired) :])
    if isinstance(change, tx.CollectFiles):
        before_by_id = before.retired_by_id
        return Delta(
            forgotten=[id for id in change.forgotten if id in before_by_id and id not in after.retired_by_id],
            marked=[file for file in after.retired if file != before_by_id[file.id]],
        )
    if isinstance(change, tx.ReplaceFiles):
        if after.files is before.files:
            return Delta()
        start = before.place_of(before.by_id[change.old[0]])
        return Delta(
            unlisted=before.files[start : start + len(change.old)],
            listed=after.files[start : start + len(change.new)],
            retired=after.retired[len(before.retired) :],
        )
    return whole_delta(before, after)


def whole_delta(before: Manifest | None, after: Manifest) -> Delta:
    """What differs between any two states, file by file. A file that stays without reference keeps its time."""
    if before is None:
        return Delta(listed=after.files, retired=after.retired)
    unlisted: list[DataFile] = []
    listed: list[DataFile] = []
    for gone, come in _differences(before.files, after.files):
        unlisted += gone
        listed += come
    return Delta(
        unlisted=unlisted,
        forgotten=[file.id for file in before.retired if file.id not in after.retired_by_id],
        listed=listed,
        retired=after.retired,
    )


def _differences(before: Files, after: Files) -> Iterator[tuple[list[DataFile], list[DataFile]]]:
    """What only one of two lists has at an offset. Each is read once, since most of it may be far away."""
    nothing: tuple[int, list[DataFile]] = (sys.maxsize, [])
    one, other = _by_offset(before), _by_offset(after)
    first, second = next(one, nothing), next(other, nothing)
    while first is not nothing or second is not nothing:
        if first[0] < second[0]:
            yield first[1], []
            first = next(one, nothing)
        elif second[0] < first[0]:
            yield [], second[1]
            second = next(other, nothing)
        else:
            if first[1] != second[1]:
                yield (
                    [file for file in first[1] if file not in second[1]],
                    [file for file in second[1] if file not in first[1]],
                )
            first, second = next(one, nothing), next(other, nothing)


def _by_offset(files: Files) -> Iterator[tuple[int, list[DataFile]]]:
    return ((offset, list(some)) for offset, some in groupby(files, attrgetter("offset")))


def listed_and_retired(manifest: Manifest) -> str | None:
    """An id that a state calls both; None where there is none, as should be."""
    retired = [file.id for file in manifest.retired]
    listed = manifest.files.with_ids(retired) if retired else {}
    return next((id for id in retired if id in listed), None)


def record_body(before: Manifest, transaction: tx.Transaction) -> str:
    """A transaction as the table ``transactions`` keeps it."""
    number = before.transaction.number + 1
    return ascii_json(Record(number=number, after=before.transaction.id, transaction=transaction))


_UNLIST = """
    DELETE FROM file_references AS old USING unnest(%b::bigint[], %b::text[]) AS gone("offset", file_id)
    WHERE table_id = %s AND old."offset" = gone."offset" AND old.file_id = gone.file_id
"""
_UNREFER = """
    DELETE FROM files AS old USING unnest(%b::bigint[], %b::text[]) AS gone("offset", file_id)
    WHERE table_id = %s AND updated = 'infinity' AND old."offset" = gone."offset" AND old.file_id = gone.file_id
"""
_FORGET = "DELETE FROM files WHERE table_id = %s AND updated <> 'infinity' AND file_id = ANY(%s)"
_REFER = """
    INSERT INTO files (table_id, "offset", file_id, path)
    SELECT %s, new.* FROM unnest(%b::bigint[], %b::text[], %b::text[]) AS new
"""
_LIST = """
    INSERT INTO file_references (table_id, "offset", file_id, body)
    SELECT %s, new.* FROM unnest(%b::bigint[], %b::text[], %b::text[]) AS new
"""
_RETIRE = """
    INSERT INTO files AS old (table_id, number, file_id, path, "by", since, shown, deleted, place, updated)
    SELECT %s, %s, new.*, now() FROM unnest(%s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s::text[],
        %s::bigint[]) AS new
    ON CONFLICT (table_id, file_id) WHERE updated <> 'infinity' DO UPDATE SET
        path = excluded.path, "by" = excluded."by", since = excluded.since, shown = excluded.shown,
        deleted = excluded.deleted, number = excluded.number, place = excluded.place
"""
_MARK = """
    UPDATE files AS old SET shown = new.shown, deleted = new.deleted
    FROM unnest(%s::text[], %s::text[], %s::text[]) AS new(file_id, shown, deleted)
    WHERE table_id = %s AND updated <> 'infinity' AND old.file_id = new.file_id
"""
_RETIRED = ("id", "path", "by", "since", "shown", "deleted")
_FORGET_LISTED = "DELETE FROM file_references WHERE table_id = %s"
_FORGET_REFERRED = "DELETE FROM files WHERE table_id = %s AND updated = 'infinity'"
_FORGET_OTHERS = "DELETE FROM files WHERE table_id = %s AND updated <> 'infinity' AND file_id <> ALL(%s)"
_COUNTS = """
    SELECT
        (SELECT count(*) FROM file_references WHERE table_id = %s),
        (SELECT count(*) FROM files WHERE table_id = %s AND updated = 'infinity'),
        (SELECT count(*) FROM files WHERE table_id = %s AND updated <> 'infinity')
"""
_LOG = "INSERT INTO transactions (table_id, number, id, at, kind, body) VALUES (%s, %s, %s, %s, %s, %s)"
_MOVE_HEAD = """
    UPDATE streams SET number = %(number)s, transaction_id = %(id)s, lineage = %(lineage)s, created = %(created)s,
        next_offset = %(next_offset)s, closed = %(closed)s, format = %(format)s, settled = %(settled)s,
        versions = coalesce(%(versions)s, versions), schemas = coalesce(%(schemas)s, schemas),
        runs = coalesce(%(runs)s, runs)
    WHERE table_id = %(table_id)s
"""
_NEW_HEAD = """
    INSERT INTO streams (table_id, number, transaction_id, format, tap, stream, lineage, created, next_offset,
        versions, schemas, runs, closed, settled)
    VALUES (%(table_id)s, %(number)s, %(id)s, %(format)s, %(tap)s, %(stream)s, %(lineage)s, %(created)s,
        %(next_offset)s, %(versions)s, %(schemas)s, %(runs)s, %(closed)s, %(settled)s)
"""


@dataclass(frozen=True, slots=True)
class TransactionRow:
    """A row of ``transactions``; ``body`` None: read the tables instead."""

    id: str
    at: str
    kind: str
    body: str | None


def check_rows(connection: Connection, table_id: str, state: Manifest) -> None:
    """Raises ``CorruptObjectError`` where a stream has not as many rows as the files of its state need."""
    row = connection.execute(_COUNTS, (table_id, table_id, table_id)).fetchone()
    if row != (len(state.files), len(state.files), len(state.retired)):
        raise not_the_state(stream=table_id)


def forget_files(connection: Connection, table_id: str, after: Manifest) -> None:
    """Remove all rows of a stream's files but those of the files that ``after`` calls retired, which keep their time:
    before ``write_change`` writes them anew, where some are lost or in the way."""
    connection.execute(_FORGET_LISTED, (table_id,))
    connection.execute(_FORGET_REFERRED, (table_id,))
    connection.execute(_FORGET_OTHERS, (table_id, [file.id for file in after.retired]))


def write_change(
    connection: Connection,
    table_id: str,
    before: Manifest | None,
    after: Manifest,
    changed: Delta,
    entry: TransactionRow,
) -> None:
    """Bring the tables from ``before`` (None: nothing of this stream is there) to ``after``, in one transaction that
    somebody else began and will end. Raises ``CorruptObjectError`` where they did not hold ``before``."""
    pipeline = connection.pipeline if driver().Pipeline.is_supported() else nullcontext
    number = after.transaction.number
    expected: list[tuple[psycopg.Cursor[Any], int]] = []
    with pipeline():
        run = connection.execute
        for files in _pages(changed.unlisted):
            places = ([file.offset for file in files], [file.id for file in files])
            expected += [(run(text, (*places, table_id)), len(files)) for text in (_UNLIST, _UNREFER)]
        for ids in _pages(changed.forgotten):
            expected.append((run(_FORGET, (table_id, list(ids))), len(ids)))
        for files in _pages(changed.listed):
            places = ([file.offset for file in files], [file.id for file in files])
            run(_REFER, (table_id, *places, [file.path for file in files]))
            run(_LIST, (table_id, *places, [ascii_json(file) for file in files]))
        for start, page in enumerate(_pages(changed.retired)):
            columns = [[getattr(file, name) for file in page] for name in _RETIRED]
            numbers = range(start * _PAGE, start * _PAGE + len(page))
            run(_RETIRE, (table_id, number, *columns, list(numbers)))
        for marked in _pages(changed.marked):
            marks = [[getattr(file, name) for file in marked] for name in ("id", "shown", "deleted")]
            expected.append((run(_MARK, (*marks, table_id)), len(marked)))
        run(_LOG, (table_id, number, entry.id, entry.at, entry.kind, entry.body))
        expected.append((run(_NEW_HEAD if before is None else _MOVE_HEAD, _head(table_id, before, after)), 1))
    if any(cursor.rowcount != rows for cursor, rows in expected):
        raise not_the_state(stream=table_id)


def _head(table_id: str, before: Manifest | None, after: Manifest) -> dict[str, object]:
    def text(part: Callable[[Manifest], Any]) -> str | None:
        return ascii_json(part(after)) if before is None or part(before) != part(after) else None

    return {
        "table_id": table_id,
        "number": after.transaction.number,
        "id": after.transaction.id,
        "format": after.format,
        "tap": ascii_json(after.tap),
        "stream": ascii_json(after.stream),
        "lineage": after.lineage,
        "created": after.created,
        "next_offset": after.next_offset,
        "versions": text(lambda state: state.versions),
        "schemas": text(lambda state: state.schemas),
        "runs": text(lambda state: state.runs),
        "closed": after.closed,
        "settled": None if after.settled is msgspec.UNSET else after.settled,
    }


def _pages(items: Sequence[T]) -> Iterator[Sequence[T]]:
    return (items[start : start + _PAGE] for start in range(0, len(items), _PAGE))

"""What a table means, fixed when it is made: a range of offsets of one lineage.

Offsets outlive everything a lake's keepers do but a rebuild: after a vacuum the same messages lie in other files at
the same offsets, so a table made before it still reads the same rows. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace

from singerlake.arrow.plan.request import Request, own_columns
from singerlake.arrow.schema.columns import Field, Struct, with_variants
from singerlake.arrow.schema.json_schema import columns_of
from singerlake.arrow.schema.own import OF_READS, RESCUED, option_for
from singerlake.arrow.values.known import KnownObject, known_in
from singerlake.errors import ExpiredMessagesError, LineageChangedError, SettingError, UnknownNameError
from singerlake.format.state import selection
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.model import Manifest


@dataclass(frozen=True, slots=True)
class Pin:
    """The messages with offsets [``first``, ``stop``) of a lineage, of ``versions`` (hashes; None: of all). ``files``
    stands for the lineage where there is none, in a manifest rebuilt in memory; elsewhere it is empty."""

    lineage: str | None
    files: str
    first: int
    stop: int
    versions: tuple[str, ...] | None


def pin(manifest: Manifest, request: Request) -> Pin:
    """What is wanted of the stream as it is now. Raises ``UnknownNameError`` listing the versions, ``SettingError`` for
    an offset behind the stream's end, ``ExpiredMessagesError`` for one before its floor."""
    versions = request.versions
    end = manifest.next_offset
    for name, offset in (("from_offset", request.from_offset), ("to_offset", request.to_offset)):
        if offset is not None and offset > end:
            raise SettingError(
                f"option {name!r} is {offset}, the stream ends at {end}",
                hint="set it to the end or before; a later offset would give other rows tomorrow",
                tap=manifest.tap,
                stream=manifest.stream,
            )
    if request.from_offset is None and request.to_offset and request.to_offset <= min(manifest.floor, end - 1):
        # All that is asked for expired: no row at all would look like a stream without messages there. A stream whose
        # messages have all expired is empty up to its end, as it is without an end.
        first = selection.offset_left(manifest, request.to_offset - 1, skip_expired=request.skip_expired)
    elif request.from_offset is None:
        first = selection.first_offset(manifest, request.from_version)
    else:
        first = selection.offset_left(manifest, request.from_offset, skip_expired=request.skip_expired)
    return Pin(
        lineage=manifest.lineage,
        files=_files_mark(manifest, manifest.next_offset) if manifest.lineage is None else "",
        first=first,
        stop=end if request.to_offset is None else max(first, request.to_offset),
        versions=None
        if versions is None
        else tuple(selection.resolve_version(manifest, version) for version in versions),
    )


def check_lineage(manifest: Manifest, request: Request) -> None:
    """Raise ``LineageChangedError`` where the offsets that are asked for are of another lineage than the stream's."""
    if request.lineage is None or request.lineage.strip() == manifest.lineage:
        return
    if manifest.lineage is None:
        what = (
            f"option 'lineage' is {request.lineage!r}, but the manifest is lost, so the stream's lineage is not known"
        )
        hint = "run 'singerlake rebuild', and look up the offsets again"
    else:
        what = (
            f"option 'lineage' is {request.lineage!r}, and the stream's is {manifest.lineage!r}: it was rebuilt or "
            "dropped"
        )
        hint = "look up the offsets again; then set the new lineage, or leave it out"
    raise LineageChangedError(what, hint=hint, tap=manifest.tap, stream=manifest.stream)


def selected(manifest: Manifest, pinned: Pin) -> FileList:
    """The files that hold what was pinned, in the stream as it is now. Raises ``LineageChangedError``,
    ``ExpiredMessagesError``, and
    ``CorruptObjectError`` where their offsets leave a message out or hold one twice."""
    if manifest.lineage != pinned.lineage or (
        manifest.lineage is None and _files_mark(manifest, pinned.stop) != pinned.files
    ):
        raise LineageChangedError(
            "the stream was rebuilt or dropped after this DataFrame or table was made",
            hint="load it again",
            tap=manifest.tap,
            stream=manifest.stream,
        )
    if pinned.first < min(pinned.stop, manifest.floor):
        raise ExpiredMessagesError(
            "the first messages expired after this DataFrame or table was made",
            hint="load it again",
            tap=manifest.tap,
            stream=manifest.stream,
        )
    listed = manifest.files_from(pinned.first, pinned.stop)
    selection.check_offsets(manifest, listed, pinned.first, pinned.stop)
    return listed if pinned.versions is None else listed.of_versions(pinned.versions)


def declared(manifest: Manifest, met: Iterable[str], request: Request) -> Struct | None:
    """All columns there are: those of the versions that are ``met`` united (of all that are asked for, where a range of
    offsets holds no file), behind them those that are not the records' own. None where the stream has no version.
    Raises ``SettingError`` where names clash."""
    if not manifest.versions:
        return None
    versions = list(met) or _asked_for(manifest, request)
    columns = columns_of(selection.schema_of(manifest, version).schema for version in versions)
    if request.variant:
        columns = Struct(tuple(replace(field, type=with_variants(field.type)) for field in columns.fields))
    added = own_columns(request).fields
    for field in added:
        if columns.get(field.name) is not None:
            option = f"leave option {option_for(field.name)!r} out"
            if field == RESCUED:
                option = "set option 'mode' to FAILFAST"
            raise SettingError(f"the records have a property {field.name!r} of their own", hint=option)
    return Struct(columns.fields + added)


def projected(columns: Struct | None, manifest: Manifest, request: Request) -> Struct:
    """The columns of a table without a user's schema. Raises ``UnknownNameError`` where one, or each, is undeclared."""
    if columns is None:
        raise UnknownNameError(
            f"stream {manifest.stream!r} has no data to take a schema from",
            hint="capture it first, or select other versions; in Spark, .schema(...) gives one",
            tap=manifest.tap,
        )
    if request.columns is not None:
        return Struct(tuple(_named(columns, name) for name in request.columns))
    if all(field == RESCUED for field in columns.fields):
        raise UnknownNameError(
            f"the schemas of stream {manifest.stream!r} name no properties",
            hint="set option 'record' to read their text, or 'metadata' to read offsets and times",
            tap=manifest.tap,
        )
    return columns


def looked_for(columns: Struct, declared: Struct | None, request: Request, *, chosen: bool) -> KnownObject | None:
    """What is known of records read as ``columns``, for the search of what no schema declares: in all of a record where
    all columns are read (not ``chosen``) or ``_rescued_data`` is one of them, else within the columns."""
    own = own_columns(request)
    whole = not chosen or (own.get(RESCUED.name) is not None and columns.get(RESCUED.name) is not None)
    return known_in(_without(columns, own), None if declared is None else _without(declared, own), whole=whole)


def _without(columns: Struct, own: Struct) -> Struct:
    return Struct(tuple(field for field in columns.fields if own.get(field.name) is None))


def _asked_for(manifest: Manifest, request: Request) -> list[str]:
    if request.versions is None:
        return list(manifest.schemas)
    return [selection.resolve_version(manifest, version) for version in request.versions]


def _named(columns: Struct, name: str) -> Field:
    field = columns.get(name)
    if field is None:
        raise unknown_column(columns, name)
    return field


def unknown_column(columns: Struct, name: str, path: str = "") -> UnknownNameError:
    """The error for a column that is not declared, within the struct that ``path`` leads to."""
    names = ", ".join(field.name for field in columns.fields)
    hint = f"there are: {names}"
    if not path and name == RESCUED.name:
        hint = f"it is there in the mode PERMISSIVE; {hint}"
    elif not path and OF_READS.get(name) is not None:
        option = option_for(name)
        hint = f"set option {option!r} to {'all' if option == 'messages' else 'true'} to have it; {hint}"
    return UnknownNameError(f"no column {path + name!r} in the versions selected", hint=hint)


def _files_mark(manifest: Manifest, stop: int) -> str:
    listed = "\n".join(f"{file.id} {file.offset}" for file in manifest.files if file.offset < stop)
    return hashlib.sha256(listed.encode()).hexdigest()

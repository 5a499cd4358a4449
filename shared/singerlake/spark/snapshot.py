"""What a DataFrame means, fixed when it is made: a range of offsets of one lineage.

Offsets outlive everything a lake's keepers do but a rebuild: after a vacuum the same messages lie in other files at
the same offsets, so a DataFrame made before it still reads the same rows.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from singerlake.arrow.columns import Struct
from singerlake.arrow.decode import METADATA
from singerlake.arrow.json_schema import columns_of
from singerlake.errors import Rebuilt, SettingError, UnknownName
from singerlake.format import selection
from singerlake.format.model import DataFile, Manifest
from singerlake.lake import Lake, LakeStream
from singerlake.settings import s3_settings
from singerlake.spark.options import ReadOptions


@dataclass(frozen=True, slots=True)
class Pin:
    """The messages with offsets [``first``, ``stop``) of a lineage, of ``versions`` (hashes; None: of all).

    ``files`` stands for the lineage where there is none, in a manifest rebuilt in memory.
    """

    lineage: str | None
    files: str
    first: int
    stop: int
    versions: tuple[str, ...] | None


def open_stream(options: ReadOptions) -> LakeStream:
    """The stream the options name. Raises ``NotALake``, ``UnknownName`` listing what there is."""
    lake = Lake.open(options.path, s3_settings(options.storage))
    return lake.require().existing_stream(options.tap, options.stream)


def pin(manifest: Manifest, options: ReadOptions) -> Pin:
    """What the options select of the stream as it is now. Raises ``UnknownName`` listing the versions."""
    versions = options.versions
    return Pin(
        lineage=manifest.lineage,
        files=_files_mark(manifest, manifest.next_offset),
        first=selection.first_offset(manifest, options.from_version),
        stop=manifest.next_offset,
        versions=None
        if versions is None
        else tuple(selection.resolve_version(manifest, version) for version in versions),
    )


def selected(manifest: Manifest, pinned: Pin) -> list[DataFile]:
    """The files that hold what was pinned, in the stream as it is now. Raises ``Rebuilt``."""
    if manifest.lineage != pinned.lineage or (
        manifest.lineage is None and _files_mark(manifest, pinned.stop) != pinned.files
    ):
        raise Rebuilt(
            "the stream was rebuilt after this DataFrame was made",
            hint="load it again",
            tap=manifest.tap,
            stream=manifest.stream,
        )
    slices = selection.select(manifest, offset=pinned.first, end=pinned.stop, versions=pinned.versions)
    return [part.file for part in slices]


def declared(manifest: Manifest, files: list[DataFile], *, metadata: bool) -> Struct | None:
    """The columns of what is selected: those of the versions of ``files`` united, and the lake's own behind them where
    ``metadata`` asks for them. None where nothing is selected. Raises ``SettingError`` where names clash."""
    if not files:
        return None
    versions = dict.fromkeys(file.version for file in files)
    columns = columns_of(manifest.schemas[version].schema for version in versions)
    if not metadata:
        return columns
    for field in METADATA.fields:
        if columns.get(field.name) is not None:
            raise SettingError(
                f"the records have a property {field.name!r} of their own", hint="leave option 'metadata' out"
            )
    return Struct(columns.fields + METADATA.fields)


def inferred(columns: Struct | None, options: ReadOptions) -> Struct:
    """The columns of a DataFrame without a schema of the user's. Raises ``UnknownName`` where nothing declares any."""
    if columns is None:
        raise UnknownName(
            f"stream {options.stream!r} has no data to take a schema from",
            hint="give one with .schema(...), or select other versions",
            tap=options.tap,
        )
    if not columns.fields:
        raise UnknownName(
            f"the schemas of stream {options.stream!r} name no properties",
            hint="set option 'metadata' to read offsets and times only",
            tap=options.tap,
        )
    return columns


def _files_mark(manifest: Manifest, stop: int) -> str:
    listed = "\n".join(f"{file.id} {file.offset}" for file in manifest.files if file.offset < stop)
    return hashlib.sha256(listed.encode()).hexdigest()

"""Holding the state of a stream against itself, without a look at its files. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from singerlake.format import layout
from singerlake.format.lines.times import known_span
from singerlake.format.schema_hash import full_hash
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.segment import is_described
from singerlake.format.state.model import Manifest
from singerlake.upkeep.verify.findings import Finding
from singerlake.work.repeats import Repeats


def check_state(
    manifest: Manifest, key: str, seen: Callable[[DataFile], object] = lambda _: None
) -> tuple[Finding, ...]:
    """What is wrong with a state by itself: offsets have no gaps, ids are distinct, and every version has its label and
    the schema that its hash is of. ``key`` is the manifest's; ``seen`` gets each listed file.
    """
    return (*_files(manifest, key, seen), *_schemas(manifest, key))


def _files(manifest: Manifest, key: str, seen: Callable[[DataFile], object]) -> Iterator[Finding]:
    prefix = layout.stream_prefix(manifest.tap, manifest.stream)
    offset = manifest.floor
    ids = Repeats(count=len(manifest.files))
    for segment, files in manifest.files.segments_with_files():
        described = segment is not None and is_described(segment, files)
        if segment is not None and not described:
            said = f"says other things of segment {segment.name} than its files come to"
            yield Finding("manifest", key, f"{said}; run 'singerlake rebuild --discard-manifest'")
        timed = described and segment is not None and not segment.untimed
        for file in files:
            seen(file)
            ids.add(file.id)
            if file.offset != offset:
                yield Finding("offsets", key, f"file {file.id} begins at offset {file.offset}, {offset} is next")
            yield from _file(manifest, file, key)
            if not timed and known_span(file.first, file.last) is None:
                said = f"its times are unknown, listed are first {file.first!r:.40} and last {file.last!r:.40}"
                yield Finding("times", prefix + file.path, said, problem=False)
            offset = file.end
    for id in ids.among(lambda: (file.id for file in manifest.files)):
        yield Finding("offsets", key, f"file {id} is listed twice")
    if manifest.next_offset != offset:
        yield Finding("offsets", key, f"the next offset is {manifest.next_offset}, the files end at {offset}")


def _file(manifest: Manifest, file: DataFile, key: str) -> Iterator[Finding]:
    if file.version not in manifest.versions or file.version not in manifest.schemas:
        yield Finding("version", key, f"file {file.id} has version {file.version}, which has no label or no schema")
    if sum(messages for _, messages in file.members) != file.messages:
        yield Finding("offsets", key, f"the members of file {file.id} do not add up to its {file.messages} messages")
    rows = [row.message for row in file.attached]
    if rows and (rows != sorted(rows) or not 0 <= rows[0] <= rows[-1] < file.messages):
        yield Finding("offsets", key, f"attached files of file {file.id} are not in the order of its messages")


def _schemas(manifest: Manifest, key: str) -> Iterator[Finding]:
    for version, held in manifest.schemas.items():
        if not is_of(held.schema, version):
            yield Finding("version", key, f"the schema under version {version} is another one's")


def is_of(schema: object, version: str) -> bool:
    """Whether a hash is of a schema."""
    try:
        return full_hash(schema).startswith(version)
    except RecursionError:
        return False

"""Holding the state of a stream against itself, without a look at its files. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from singerlake.format import FORMAT, layout
from singerlake.format.lines.times import known_span
from singerlake.format.schema_hash import full_hash
from singerlake.format.state.model import Manifest
from singerlake.maintenance.verify.findings import Finding


def check_state(manifest: Manifest, key: str) -> tuple[Finding, ...]:
    """What is wrong with a state by itself: offsets have no gaps, ids are distinct, and every version has its label and
    the schema that its hash is of. ``key`` is the manifest's."""
    return (*_files(manifest, key), *_schemas(manifest, key))


def _files(manifest: Manifest, key: str) -> Iterator[Finding]:
    prefix = layout.stream_prefix(manifest.tap, manifest.stream)
    # In a newer format the oldest files may have expired.
    offset = manifest.floor if manifest.format > FORMAT else 0
    seen: set[str] = set()
    for file in manifest.files:
        if file.offset != offset:
            yield Finding("offsets", key, f"file {file.id} begins at offset {file.offset}, {offset} is next")
        if file.id in seen:
            yield Finding("offsets", key, f"file {file.id} is listed twice")
        if file.version not in manifest.versions or file.version not in manifest.schemas:
            yield Finding("version", key, f"file {file.id} has version {file.version}, which has no label or no schema")
        if sum(messages for _, messages in file.members) != file.messages:
            yield Finding(
                "offsets", key, f"the members of file {file.id} do not add up to its {file.messages} messages"
            )
        rows = [row.message for row in file.attached]
        if rows and (rows != sorted(rows) or not 0 <= rows[0] <= rows[-1] < file.messages):
            yield Finding("offsets", key, f"attached files of file {file.id} are not in the order of its messages")
        seen.add(file.id)
        offset = file.end
        if known_span(file.first, file.last) is None:
            said = f"its times are unknown, listed are first {file.first!r:.40} and last {file.last!r:.40}"
            yield Finding("times", prefix + file.path, said, problem=False)
    if manifest.next_offset != offset:
        yield Finding("offsets", key, f"the next offset is {manifest.next_offset}, the files end at {offset}")


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

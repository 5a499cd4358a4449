"""Comparing what lies below a stream's folder with what its state lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

from singerlake.format import layout
from singerlake.format.exact_json import encode
from singerlake.format.state.model import Manifest
from singerlake.scratch.listed_paths import ListedPaths
from singerlake.storage.port import Entry, Storage
from singerlake.upkeep.verify.check_attached import AttachedObject, lost, of_other_size
from singerlake.upkeep.verify.check_file import missing
from singerlake.upkeep.verify.findings import Finding
from singerlake.work.journal_file import stamp


@dataclass(frozen=True, slots=True)
class Listing:
    """What a listing of a stream's folder shows beside its state: data files that nothing lists, findings about listed
    files by path, stamps of attached files by path, and schemas that are kept."""

    strays: list[Entry]
    findings: list[tuple[str, Finding]]
    attached: dict[str, bytes]
    kept: list[Entry]


def compare(
    storage: Storage,
    manifest: Manifest,
    known: ListedPaths,
    objects: Mapping[str, AttachedObject],
    *,
    sizes: bool,
    stamped: bool,
) -> Listing:
    """``known`` are the paths of the listed files, which are shown what storage has; ``objects`` are the attached ones,
    by path. ``sizes``: say which files are missing or have another size. ``stamped``: make stamps of both. Holds no
    more of the entries than is asked for. Raises what storage and ``known`` raise."""
    prefix = layout.stream_prefix(manifest.tap, manifest.stream)
    retired = {file.path for file in manifest.retired}
    seen = Listing([], [], {}, [])
    unseen = dict(objects) if sizes else {}
    for entry in storage.list(prefix):
        path = entry.key[len(prefix) :]
        if layout.is_kept_schema(path):
            seen.kept.append(entry)
            continue
        if layout.attached_name_in(path) is not None:
            unseen.pop(path, None)
            held = objects.get(path)
            if held is None and path not in retired:
                seen.strays.append(entry)
            elif held is not None and sizes and entry.size != held.bytes:
                seen.findings.append((path, of_other_size(entry.key, entry.size, held.bytes)))
            if held is not None and stamped:
                seen.attached[path] = stamp(entry, encode(held))
            continue
        if not layout.is_data_file(path):
            if "/" not in path and path.endswith(layout.SUFFIX):
                said = "is outside the folders of versions, so no reader finds it; move it into one"
                seen.findings.append(("", Finding("misplaced", entry.key, said)))
            continue
        size = known.size(path)
        if size is None:
            if path not in retired:
                seen.strays.append(entry)
            continue
        known.show(path, partial(stamp, entry) if stamped else None)
        if sizes and entry.size != size:
            said = f"bytes {entry.size}, listed {size}"
            seen.findings.append((path, Finding("differs", entry.key, said)))
    if sizes and not known.all_shown:
        gone = (file for file in manifest.files if not known.is_shown(file.path))
        seen.findings.extend((file.path, missing(file, prefix + file.path)) for file in gone)
    seen.findings.extend((path, lost(prefix + path)) for path in unseen)
    return seen

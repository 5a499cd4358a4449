"""Which messages a reader means: versions and offsets, resolved against one snapshot of a manifest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from singerlake.errors import CorruptObjectError, ExpiredMessagesError, UnknownNameError
from singerlake.format import layout
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.files.segment import Segment
from singerlake.format.state.model import Manifest, SchemaVersion


@dataclass(frozen=True, slots=True)
class Slice:
    """The messages of ``file`` from its ``skip``-th on and before its ``stop``-th (None: to its end), one at least."""

    file: DataFile
    skip: int
    stop: int | None = None

    @property
    def offset(self) -> int:
        """The offset of its first message."""
        return self.file.offset + self.skip

    @property
    def member(self) -> int:
        """The last tabled member that begins at or before its first message."""
        seen, index = 0, 0
        for index, (_, messages) in enumerate(self.file.members):
            if seen + messages > self.skip:
                return index
            seen += messages
        return index

    @property
    def until(self) -> int | None:
        """The first tabled member behind its last message; None where there is none."""
        if self.stop is None:
            return None
        seen = 0
        for index, (_, messages) in enumerate(self.file.members):
            if seen >= self.stop:
                return index
            seen += messages
        return None

    @property
    def stored_end(self) -> int | None:
        """The stored byte before which reading may end; None: the file's end."""
        until = self.until
        return None if until is None else self.file.members[until][0]


def resolve_version(manifest: Manifest, text: str) -> str:
    """The hash that ``text`` names: a label (``v2``), a hash or a hash's path segment. Raises ``UnknownNameError``."""
    if text in manifest.versions:
        return text
    for version, label in manifest.versions.items():
        if text in (label, layout.to_segment(version)):
            return version
    known = ", ".join(f"{label} ({version})" for version, label in manifest.versions.items())
    raise UnknownNameError(
        f"stream {manifest.stream!r} has no version {text!r}",
        hint=f"it has: {known}" if known else "it has no data yet",
        tap=manifest.tap,
    )


def newest_version(manifest: Manifest) -> str | None:
    """The version (hash) of the stream's newest SCHEMA message (5.4 of ``shared/docs/format``); None: none."""
    schemas, files = manifest.schemas, manifest.files
    versions = [each for each in manifest.versions if each in schemas]
    # Of these no message was kept yet, so they came behind all that were.
    among = [each for each in versions if schemas[each].first_offset >= manifest.next_offset]
    if not among:
        if files:
            return files[-1].version
        among = [each for each in versions if schemas[each].newest is True]
    return last_label(manifest, among)


def last_label(manifest: Manifest, among: Sequence[str] = ()) -> str | None:
    """The version with the greatest label, of those in ``among`` if there are any; None where there is none."""
    return max(among or manifest.versions, key=lambda version: _label(manifest.versions[version]), default=None)


def schema_in_force(manifest: Manifest) -> SchemaVersion | None:
    """What the stream's newest SCHEMA message said: the schema, and the key and bookmark properties that are in force;
    None where there is none. Raises ``CorruptObjectError`` as ``schema_of``."""
    version = newest_version(manifest)
    return None if version is None else schema_of(manifest, version)


def _label(text: str) -> tuple[int, str]:
    return len(text), text


def first_offset(manifest: Manifest, from_version: str | None) -> int:
    """The offset at which a version first appears, or the stream begins (None). Everything from there on follows, so
    that nothing is lost when an older schema comes back; what expired does not. Raises ``UnknownNameError``."""
    if from_version is None:
        return manifest.floor
    return max(manifest.floor, schema_of(manifest, resolve_version(manifest, from_version)).first_offset)


def offset_left(manifest: Manifest, wanted: int, *, skip_expired: bool) -> int:
    """The offset at which a reader continues that wants ``wanted`` next: another one, the floor, only with
    ``skip_expired``. Raises ``ExpiredMessagesError`` where the messages from ``wanted`` on expired."""
    if wanted >= manifest.floor or skip_expired:
        return max(wanted, manifest.floor)
    raise ExpiredMessagesError(
        f"the messages from offset {wanted} to {manifest.floor - 1} expired before they were read",
        hint="set skip_expired to go on at the oldest one that is left",
        tap=manifest.tap,
        stream=manifest.stream,
    )


def select(
    manifest: Manifest, *, offset: int = 0, end: int | None = None, versions: Iterable[str] | None = None
) -> list[Slice]:
    """As ``slices``, all of them."""
    return list(slices(manifest, offset=offset, end=end, versions=versions))


def slices(
    manifest: Manifest, *, offset: int = 0, end: int | None = None, versions: Iterable[str] | None = None
) -> Iterator[Slice]:
    """The listed messages from ``offset`` on in files that begin before ``end``, in offset order; of ``versions``
    (labels, hashes or segments) alone. Raises ``UnknownNameError``, and as ``check_offsets``, before the first."""
    wanted = None if versions is None else {resolve_version(manifest, text) for text in versions}
    stop = manifest.next_offset if end is None else min(end, manifest.next_offset)
    first = max(offset, manifest.floor)
    listed = manifest.files_from(first, stop)
    check_offsets(manifest, listed, first, stop)
    meant = listed if wanted is None else listed.of_versions(wanted)
    return (Slice(file, max(0, first - file.offset)) for file in meant)


def check_offsets(manifest: Manifest, listed: FileList, first: int, stop: int) -> None:
    """Raise ``CorruptObjectError`` unless ``listed``, the files with offsets [``first``, ``stop``), hold each once: of
    a manifest changed by hand a reader would read too little or twice. Segments are checked when they are read."""
    end = manifest.files.end
    if end is not None and end != manifest.next_offset:
        raise _contradiction(manifest, f"its files end at offset {end}, the next one is {manifest.next_offset}")
    if manifest.files.gap is not None:
        raise _contradiction(manifest, f"no segment begins at offset {manifest.files.gap}, where the one before ends")
    offset = first if listed.begin is None else min(listed.begin, first)
    for part in (*listed.parts, listed.tail):
        if isinstance(part, Segment):
            # Where it begins was told by the gaps.
            offset = part.end
            continue
        for file in part:
            if file.offset != offset:
                raise _contradiction(manifest, f"file {file.path} begins at offset {file.offset}, {offset} is next")
            if not file.is_sound:
                said = f"file {file.path} has {file.messages} messages, its members have {file.tabled}"
                rows = ", and its rows are of others" if file.tabled == file.messages else ""
                raise _contradiction(manifest, said + rows)
            offset = file.end
    if offset < stop:
        raise _contradiction(manifest, f"no file holds offset {offset}")


def _contradiction(manifest: Manifest, what: str) -> CorruptObjectError:
    return CorruptObjectError(
        f"the manifest contradicts itself: {what}",
        hint="run 'singerlake verify'; if it says the same, run 'singerlake rebuild'",
        key=layout.manifest_key(manifest.tap, manifest.stream),
    )


def schema_of(manifest: Manifest, version: str) -> SchemaVersion:
    """The schema of a version, by its hash. Raises ``CorruptObjectError`` where the manifest has none."""
    schema = manifest.schemas.get(version)
    if schema is None:
        raise CorruptObjectError(
            "the manifest has no schema for a version that it lists",
            hint="run 'singerlake rebuild', which takes it from the data files",
            tap=manifest.tap,
            stream=manifest.stream,
            version=version,
        )
    return schema

"""What a verification has read so far: a line for each file, with the kinds of findings about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from singerlake.format.decoders import prepare_decoders
from singerlake.upkeep.verify.findings import Finding, Kind
from singerlake.work.journal_file import STAMP_BYTES, JournalFile, StampSet, open_file


class _Line(msgspec.Struct, frozen=True, gc=False):
    """A file that was read whole: its key, its stored bytes, its stamp in hexadecimal digits, and the kinds of
    findings about it, none where it is sound."""

    key: str
    size: int
    stamp: str
    findings: tuple[Kind, ...] = ()


_LINE = msgspec.json.Decoder(_Line)


class Journal:
    """The journal of one lake, open. Made by ``open_journal``."""

    def __init__(self, file: JournalFile, sound: StampSet) -> None:
        self._file = file
        self._sound = sound

    def knows(self, stamp: bytes | None) -> bool:
        """Whether a file was found sound when it had this stamp. One with findings is always read again."""
        return stamp is not None and stamp in self._sound

    def note(self, key: str, size: int, stamp: bytes | None, findings: Sequence[Finding]) -> None:
        """A file was read. One that the listing did not show has no stamp, and is not noted. Raises ``SettingError``
        where the journal cannot be written."""
        if stamp is None:
            return
        kinds = tuple(dict.fromkeys(finding.kind for finding in findings))
        self._file.append(_Line(key, size, stamp.hex(), kinds))


@contextmanager
def open_journal(path: Path, lake: str) -> Iterator[Journal]:
    """The journal at ``path`` of the lake with the URL ``lake``, made where there is none, held as long as the block
    runs. Raises ``SettingError`` as ``open_file`` does."""
    sound = StampSet()

    def take(line: bytes, _: int) -> None:
        noted = _LINE.decode(line)
        if not noted.findings:
            stamp = bytes.fromhex(noted.stamp)
            if len(stamp) != STAMP_BYTES:
                raise ValueError(noted.stamp)
            sound.add(stamp)

    with open_file(path, "singerlake verify", lake, take) as file:
        yield Journal(file, sound)


prepare_decoders(_Line)

"""Which files a verification reads where it does not read all: a share of each stream's, by lot."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from hashlib import blake2b
from heapq import nsmallest
from math import ceil
from operator import itemgetter

from singerlake.errors import SettingError
from singerlake.format.state.files.data_file import DataFile

_LOT_BYTES = 8
_SHARE = re.compile(r"(\d{1,18})(?:(\.\d{1,18})?\s*%)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Sample:
    """A share of each stream's files (``share``, above 0 and at most 1), or a number of them (``files``). The same
    ``seed`` draws the same files of the same state; what else is in the lake makes no difference."""

    seed: str
    share: Fraction | None = None
    files: int | None = None

    def of(self, files: Sequence[DataFile]) -> Sequence[DataFile]:
        """The files to read, in their order: at least one, where there is any."""
        wanted = self.files if self.share is None else ceil(len(files) * self.share)
        lots = ((self._lot(file), place, file) for place, file in enumerate(files))
        drawn = nsmallest(min(wanted or 0, len(files)), lots, key=itemgetter(0, 1))
        return [file for _, _, file in sorted(drawn, key=itemgetter(1))]

    def _lot(self, file: DataFile) -> bytes:
        """As good as random, and the same on every machine."""
        return blake2b(f"{self.seed} {file.id}".encode(errors="surrogatepass"), digest_size=_LOT_BYTES).digest()


def parse_sample(text: str, seed: str) -> Sample:
    """``10%``, ``0.5%`` or a number of files. Raises ``SettingError``."""
    match = _SHARE.fullmatch(text.strip())
    if match is None:
        raise SettingError(
            f"{text!r} is not a share of files", hint="write 10%, or 500 for that many files of a stream"
        )
    if not text.strip().endswith("%"):
        return Sample(seed, files=_positive(text, int(match[1])))
    share = Fraction(match[1] + (match[2] or "")) / 100
    if share > 1:
        raise SettingError(f"{text!r} is more than all files", hint="write 100% at most")
    _positive(text, share)
    return Sample(seed, share=share)


def _positive(text: str, number: int | Fraction) -> int:
    if not number:
        raise SettingError(f"{text!r} is not a file", hint="write more than 0")
    return int(number)

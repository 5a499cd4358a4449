"""The rest of the reader written from ``shared/docs/format`` alone: section 4, the members of a data file."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.golden.independent.unreadable import Unreadable


@dataclass
class Member:
    """A gzip member: where it starts, its text and what its ``SL`` says."""

    start: int
    text: bytes
    words: dict[str, Any]


def members_of(body: bytes, start: int = 0) -> list[Member]:
    """All members from a stored byte on."""
    found = []
    while start < len(body):
        inflater = zlib.decompressobj(31)
        try:
            text = inflater.decompress(body[start:])
        except zlib.error as error:
            raise Unreadable(str(error)) from error
        if not inflater.eof:
            raise Unreadable("cut")
        found.append(Member(start, text, words_of(body[start:])))
        start = len(body) - len(inflater.unused_data)
    return found


def words_of(member: bytes) -> dict[str, Any]:
    """The object in the subfield ``SL``; empty where there is none."""
    if not member[3] & 4:
        return {}
    end = 12 + int.from_bytes(member[10:12], "little")
    at = 12
    while at + 4 <= end:
        size = int.from_bytes(member[at + 2 : at + 4], "little")
        if member[at : at + 2] == b"SL":
            try:
                words = json.loads(member[at + 4 : at + 4 + size])
            except ValueError:
                return {}
            return words if isinstance(words, dict) else {}
        at += 4 + size
    return {}


def lines_of(members: Iterable[Member]) -> list[bytes]:
    """Whole lines without their newlines."""
    text = b"".join(member.text for member in members)
    if not text:
        return []
    if not text.endswith(b"\n"):
        raise Unreadable("ends in the middle of a line")
    return text[:-1].split(b"\n")


def is_schema(line: bytes) -> bool:
    return b'"SCHEMA"' in line and json.loads(line).get("type") == "SCHEMA"


@dataclass
class Origins:
    """What the leading empty members say: the file's id, and the lists."""

    own: str | None
    replaces: list[tuple[str, int]]
    through: list[tuple[str, int]]
    erased: list[tuple[str, int]]

    @property
    def messages(self) -> int | None:
        """How many messages the originals have; None where one has none."""
        counts = [count for _, count in self.replaces]
        return sum(counts) if min(counts, default=0) > 0 else None


def origins_of(members: Sequence[Member]) -> Origins:
    """What a vacuumed file was made of; nothing where it is none."""
    found = Origins(None, [], [], [])
    for member in members:
        if member.text:
            break
        if "replaces" in member.words:
            found.own = member.words["id"] if found.own is None else found.own
            found.replaces += [(id, count) for id, count in member.words["replaces"]]
            found.through += [(id, before) for id, before in member.words.get("through", ())]
            found.erased += [(id, records) for id, records, _, _ in member.words.get("erased", ())]
    return found

"""Files in a database are told apart, chosen and ordered as ``distinct`` and ``choose`` do it in memory."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from singerlake.format.exact_json import encode
from singerlake.format.state.model import StreamSchema
from singerlake.upkeep.rebuild.choose import choose, distinct
from singerlake.upkeep.rebuild.on_disk import DistinctFiles, FoundFiles
from singerlake.upkeep.scan import HOLES
from singerlake.upkeep.scanned_file import FileFacts, ScannedFile, content_id
from tests.upkeep.rebuild.sizes import keep_little

SCHEMAS = [StreamSchema(schema={"n": n}) for n in range(2)]
CONTENTS = [f"{number:064x}" for number in range(4)]
TAKEN = content_id(CONTENTS[1])
IDS = ["a", "b", "c", "d", "e", "f", "g", "\ud800", TAKEN, content_id(CONTENTS[2])]


def found(
    path: str, id: str, content: int, created: int, *, hole: int | None = None, seq: int = 0, **more: Any
) -> ScannedFile:
    """A file whose text is one of ``CONTENTS``; ``hole`` is the number of a message that is erased."""
    facts = FileFacts(
        created=str(created),
        run="r" if created else "",
        seq=seq,
        atomic=False,
        holes=b"" if hole is None else HOLES.pack(hole, 1),
        records=content,
        bytes=1,
        raw_bytes=content,
        sha256=CONTENTS[content],
        first=None,
        last=None,
        members=(),
        crc=content,
        cuts=b"",
    )
    return ScannedFile(path, id, 1 + content, SCHEMAS[content % 2], encode(facts), **more)


@st.composite
def sets_of_files(draw: st.DrawFn) -> list[ScannedFile]:
    """Some, as a listing has them."""
    count = draw(st.integers(0, 9))
    held = st.lists(st.tuples(st.sampled_from(IDS), st.integers(1, 4)), max_size=3).map(tuple)
    return [
        found(
            f"{place}",
            draw(st.sampled_from(IDS)),
            draw(st.integers(0, 3)),
            draw(st.integers(0, 3)),
            replaces=draw(held),
            hole=draw(st.none() | st.integers(0, 3)),
        )
        for place in range(count)
    ]


CLASH = [found("0", "a", 0, 1), found("1", "a", 1, 1)]
"""The second one is taken under the id of its content."""


@given(sets_of_files(), st.booleans())
@example([*CLASH, found("2", TAKEN, 2, 1)], True)
@example([*CLASH, found("2", "b", 2, 1, replaces=((TAKEN, 2), ("c", 1)))], True)
@example([*CLASH, *(found(str(n), TAKEN, n, 1) for n in (2, 3))], True)
def test_they_are_settled_as_in_memory(files: list[ScannedFile], little: bool) -> None:
    kept, copies = distinct(files, prefix="p/")
    expected = choose(kept, prefix="p/")
    with pytest.MonkeyPatch.context() as patched:
        if little:
            keep_little(patched)
        in_database = FoundFiles(files)
        assert list(in_database) == files
        ordered = sorted(files, key=attrgetter("order"))
        assert [file.order[:-1] for _, file in in_database.in_order()] == [file.order[:-1] for file in ordered]
        settled = DistinctFiles(in_database, "p/")
        choice = settled.chosen()
        assert settled.findings == copies
        assert choice.findings == expected.findings
        assert choice.covered == expected.covered
        assert choice.torn == expected.torn
        assert list(settled.in_order(choice.files)) == expected.files
        by_id = {file.id: file for file in kept}
        numbered = dict(in_database.numbered())
        for id in IDS:
            place = settled.find(id)
            assert (place and place[1]) == by_id.get(id)
            if place is not None and place[0] is not None:
                assert numbered[place[0]] == place[1]
        ordinary = [file for _, file in settled.plain()]
        assert sorted(ordinary + settled.odd, key=lambda file: file.id) == sorted(kept, key=lambda file: file.id)


def test_files_that_are_removed_are_not_there() -> None:
    files = FoundFiles(found(str(n), f"i{n}", 0, n, replaces=(("s", 1),) if n == 3 else ()) for n in range(5))
    for number, file in list(files.numbered())[1:4:2]:
        files.remove(number, file)
    assert (len(files), [file.path for file in files], files.with_id("s")) == (3, ["0", "2", "4"], [])
    assert [file.path for _, file in files.in_order()] == ["2", "4", "0"]
    assert DistinctFiles(files, "p/").find("i1") is None


def test_what_is_no_text_or_number_of_sqlite_comes_back_and_is_in_order() -> None:
    """Names that are no Unicode or end in a NUL, and counts beyond 64 bits, which a header may have."""
    files = [
        found(path, f"i\0{path}", 0, 1, replaces=(("\udcff", 1 << 70),), seq=seq)
        for path, seq in (("b\0", 1 << 70), ("\udcff", 1), ("b", 1), ("b\0a", -(1 << 70)), ("\ud7ff\uffff", 2))
    ]
    made = FoundFiles(files)
    assert list(made) == files
    assert [file for _, file in made.in_order()] == sorted(files, key=attrgetter("order"))

"""Files that are on disk are told apart, chosen and ordered as ``distinct`` and ``choose`` do it in memory."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from singerlake.format.exact_json import encode
from singerlake.format.state.model import StreamSchema
from singerlake.upkeep.rebuild.choose import choose, distinct
from singerlake.upkeep.rebuild.scanned_file import FileFacts, ScannedFile, content_id
from singerlake.upkeep.rebuild.spooled import found_files, settled
from singerlake.upkeep.rebuild.spooled.found_files import FoundFiles
from singerlake.upkeep.rebuild.spooled.settled import DistinctFiles
from singerlake.upkeep.scan.lines import HOLES
from tests.upkeep.rebuild.spooled.sizes import keep_little

SCHEMAS = [StreamSchema(schema={"n": n}) for n in range(2)]
CONTENTS = [f"{number:064x}" for number in range(4)]
TAKEN = content_id(CONTENTS[1])
IDS = ["a", "b", "c", "d", "e", "f", "g", "\ud800", TAKEN, content_id(CONTENTS[2])]


def found(path: str, id: str, content: int, created: int, *, hole: int | None = None, **more: Any) -> ScannedFile:
    """A file whose text is one of ``CONTENTS``; ``hole`` is the number of a message that is erased."""
    facts = FileFacts(
        created=str(created),
        run="r" if created else "",
        seq=0,
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
@settings(max_examples=300, deadline=None)
@example([*CLASH, found("2", TAKEN, 2, 1)], True)
@example([*CLASH, found("2", "b", 2, 1, replaces=((TAKEN, 2), ("c", 1)))], True)
@example([*CLASH, *(found(str(n), TAKEN, n, 1) for n in (2, 3))], True)
def test_they_are_settled_as_in_memory(files: list[ScannedFile], on_disk: bool) -> None:
    kept, copies = distinct(files, prefix="p/")
    expected = choose(kept, prefix="p/")
    with pytest.MonkeyPatch.context() as patched:
        if on_disk:
            keep_little(patched)
        spooled = FoundFiles(files)
        assert spooled.spooled == (on_disk and sum(1 + len(file.replaces) // 4 for file in files) >= 2)
        assert sorted(spooled, key=lambda file: file.path) == files
        settled_ones = DistinctFiles(spooled, "p/")
        choice = settled_ones.chosen()
        assert settled_ones.findings == copies
        assert choice.findings == expected.findings
        assert choice.covered == expected.covered
        assert choice.torn == expected.torn
        assert list(settled_ones.in_order(choice.files)) == expected.files
        by_id = {file.id: file for file in kept}
        for id in IDS:
            place = settled_ones.find(id)
            assert (place and place[1]) == by_id.get(id)
            if place is not None and place[0] is not None:
                assert spooled[place[0]] == place[1]
        ordinary = [file for _, file in settled_ones.plain()]
        assert sorted(ordinary + settled_ones.odd, key=lambda file: file.id) == sorted(kept, key=lambda file: file.id)


@given(sets_of_files())
@settings(max_examples=100, deadline=None)
def test_hashes_decide_nothing(files: list[ScannedFile]) -> None:
    """Though all texts have one hash of two."""
    kept, copies = distinct(files, prefix="p/")
    expected = choose(kept, prefix="p/")
    with pytest.MonkeyPatch.context() as patched:
        keep_little(patched)
        for module in (found_files, settled):
            patched.setattr(module, "hash", lambda text: len(text) % 2, raising=False)
        patched.setattr("singerlake.work.path_marks.hash", lambda text: len(text) % 2, raising=False)
        settled_ones = DistinctFiles(FoundFiles(files), "p/")
        choice = settled_ones.chosen()
        assert (settled_ones.findings, choice.findings) == (copies, expected.findings)
        assert list(settled_ones.in_order(choice.files)) == expected.files
        assert {id for id in IDS if settled_ones.find(id)} == {file.id for file in kept}.intersection(IDS)


def test_files_that_are_left_out_are_not_there() -> None:
    files = [found(str(n), f"i{n}", 0, n) for n in range(5)]
    with pytest.MonkeyPatch.context() as patched:
        keep_little(patched)
        less = FoundFiles(files).without(["1", "3"])
    assert (len(less), sorted(file.path for file in less)) == (3, ["0", "2", "4"])
    assert [file.path for file in less.without(["4"]).in_order()] == ["2", "0"]
    assert DistinctFiles(less, "p/").find("i1") is None

"""Rows of attached files through joins and erasures, in turn: each stays with its record, and goes with it."""

from __future__ import annotations

import io

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.attached.members import attached_members
from singerlake.format.extra_fields import empty_member
from singerlake.format.state.attached import Attached
from singerlake.format.state.attached_objects import rows_in_a_row
from singerlake.format.state.files.data_file import DataFile
from singerlake.singer_file import compress_member
from singerlake.upkeep.checks import check_file
from singerlake.upkeep.result import Finding
from singerlake.upkeep.vacuum.join import read_head
from tests.fakes import FakeClock, counting_ids
from tests.storage.memory import MemoryStorage
from tests.upkeep.attached.data_files import (
    FACTS,
    Shelved,
    body_of,
    lines_member,
    row,
    rows_member,
    scanned,
    with_photos,
)
from tests.upkeep.shelf import PREFIX, STREAM, record, schema_line


@pytest.fixture
def shelved() -> Shelved:
    return new_shelf()


def new_shelf() -> Shelved:
    return Shelved(MemoryStorage(clock=FakeClock(), ids=counting_ids()))


def photos(file: DataFile) -> dict[int, list[str | None]]:
    """What a file's rows say, by offset."""
    found: dict[int, list[str | None]] = {}
    for each in file.attached:
        found.setdefault(file.offset + each.message, []).append(each.source)
    return found


def check(shelved: Shelved, file: DataFile) -> None:
    """The file is what the manifest says of it, rows too."""
    facts = scanned(shelved.body(file))
    for fact in FACTS:
        assert getattr(facts, fact) == getattr(file, fact)
    assert check_file(shelved.storage, STREAM, file, PREFIX + file.path) == ()
    read_head(file, shelved.body(file))


def test_a_join_keeps_the_members_with_rows_byte_for_byte(shelved: Shelved) -> None:
    files = [with_photos(shelved, 1, "a", None, "b"), with_photos(shelved, 2, None), with_photos(shelved, 3, None, "c")]
    made = shelved.joined(files)
    check(shelved, made)
    assert photos(made) == {0: ["a.jpg"], 2: ["b.jpg"], 5: ["c.jpg"]}
    assert all(shelved.body(file) in shelved.body(made) for file in files)
    again = shelved.joined([made, with_photos(shelved, 4, "d", first=6)])
    check(shelved, again)
    assert photos(again) == {**photos(made), 6: ["d.jpg"]}


def test_an_erasure_leaves_out_the_rows_of_what_it_erases(shelved: Shelved) -> None:
    file = shelved.put(
        1,
        body_of(
            1,
            lines_member(0, 1, 2),
            attached_members([row(0, "a"), row(1, "b"), row(1, None), row(2, "c")]),
            lines_member(3),
            attached_members([row(3, "d")]),
        ),
    )
    made = shelved.erased(file, 1)
    assert isinstance(made, DataFile)
    check(shelved, made)
    assert photos(made) == {0: ["a.jpg"], 2: ["c.jpg"], 3: ["d.jpg"]}
    assert b"b.jpg" not in shelved.body(made)
    again = shelved.erased(made, 0, 2, 3)
    assert isinstance(again, DataFile)
    check(shelved, again)
    assert again.attached == ()
    assert b"attached" not in shelved.body(again)


def test_a_member_without_a_row_that_goes_is_copied(shelved: Shelved) -> None:
    member = rows_member(row(0, "a"), row(0, "b"))
    file = shelved.put(1, body_of(1, lines_member(0), member, lines_member(1), rows_member(row(1, "c"))))
    made = shelved.erased(file, 1)
    assert isinstance(made, DataFile)
    assert member in shelved.body(made)
    assert rows_member(row(1, "c")) not in shelved.body(made)


def test_rows_in_another_order_are_put_into_that_of_their_messages(shelved: Shelved) -> None:
    members = [lines_member(0, 1, 2), rows_member(row(2, "c"), row(0, "a")), rows_member(row(1, "b"))]
    file = shelved.put(1, body_of(1, *members))
    assert photos(file) == {0: ["a.jpg"], 1: ["b.jpg"], 2: ["c.jpg"]}
    made = shelved.erased(shelved.joined([file, with_photos(shelved, 2, "d", first=3)]), 0)
    assert isinstance(made, DataFile)
    check(shelved, made)
    assert photos(made) == {1: ["b.jpg"], 2: ["c.jpg"], 3: ["d.jpg"]}


@pytest.mark.parametrize("order", ["joined first", "erased first"])
def test_a_joined_file_is_erased_from_and_joined_again(shelved: Shelved, order: str) -> None:
    one = with_photos(shelved, 1, "a", "b")
    two = with_photos(shelved, 2, "c", "a", first=2)
    three = with_photos(shelved, 3, "d", first=4)
    if order == "joined first":
        made = shelved.erased(shelved.joined([one, two]), 1, 2)
        assert isinstance(made, DataFile)
    else:
        parts = [shelved.erased(one, 1), shelved.erased(two, 2)]
        made = shelved.joined([part for part in parts if isinstance(part, DataFile)])
    check(shelved, made)
    assert photos(made) == {0: ["a.jpg"], 3: ["a.jpg"]}
    whole = shelved.joined([made, three])
    check(shelved, whole)
    assert photos(whole) == {0: ["a.jpg"], 3: ["a.jpg"], 4: ["d.jpg"]}
    left = shelved.erased(whole, 0, 4)
    assert isinstance(left, DataFile)
    check(shelved, left)
    assert photos(left) == {3: ["a.jpg"]}


def test_a_part_without_a_header_keeps_its_rows_when_it_is_joined_and_erased_from(shelved: Shelved) -> None:
    """Such files are of foreign make, and rows count in them from the first message."""
    one = with_photos(shelved, 1, "a", "b")
    body = body_of(2, lines_member(2, 3, 4), rows_member(row(0, "c"), row(2, "d")), has_header=False)
    two = shelved.put(2, body)
    assert photos(two) == {2: ["c.jpg"], 4: ["d.jpg"]}
    made = shelved.joined([one, two])
    check(shelved, made)
    assert photos(made) == {0: ["a.jpg"], 1: ["b.jpg"], 2: ["c.jpg"], 4: ["d.jpg"]}
    left = shelved.erased(made, 0, 4)
    assert isinstance(left, DataFile)
    check(shelved, left)
    assert photos(left) == {1: ["b.jpg"], 2: ["c.jpg"]}


def test_rows_that_count_for_nothing_do_not_come_to_count_by_an_erasure(shelved: Shelved) -> None:
    """Of a field of which one row is beyond the messages, none counts; with that row left out, the others would."""
    body = body_of(
        1,
        lines_member(0, 1),
        rows_member(row(0, "a"), row(2, "hostile")),
        empty_member(b'{"attached":[[-1,"photo","hostile",null,null,null,1]]}'),
        lines_member(2),
        rows_member(row(2, "b")),
        empty_member(b'{"other":"hostile"}'),
    )
    file = shelved.put(1, body)
    assert photos(file) == {2: ["b.jpg"]}
    for numbers, left in (((0,), {2: ["b.jpg"]}), ((2,), {})):
        made = shelved.erased(file, *numbers)
        assert isinstance(made, DataFile)
        check(shelved, made)
        assert photos(made) == left
        assert b"hostile" not in shelved.body(made)


def test_rows_in_the_middle_of_a_line_are_no_rows(shelved: Shelved) -> None:
    line = record(1)
    halves = [compress_member(line[:9], 1), rows_member(row(0, "a")), compress_member(line[9:], 1)]
    file = shelved.put(1, body_of(1, lines_member(0), *halves, lines_member(2), rows_member(row(1, "b"))))
    assert photos(file) == {1: ["b.jpg"]}
    for numbers, left in (((0,), {1: ["b.jpg"]}), ((1,), {}), ((2,), {1: ["b.jpg"]})):
        made = shelved.erased(file, *numbers)
        assert isinstance(made, DataFile)
        check(shelved, made)
        assert photos(made) == left


def test_a_file_whose_rows_are_not_those_of_the_manifest_stays_and_is_reported(shelved: Shelved) -> None:
    file = with_photos(shelved, 1, "a", "b")
    for rows in ((), file.attached[:1], (*file.attached, row(1, "c"))):
        wrong = msgspec.structs.replace(file, attached=rows)
        found = shelved.erased(wrong, 0)
        assert isinstance(found, Finding)
        assert (found.kind, found.key) == ("differs", PREFIX + file.path)
        assert found.message.startswith("the attached files that it tells of are not those that the manifest lists")
        (finding,) = check_file(shelved.storage, STREAM, wrong, PREFIX + file.path)
        assert finding.message == "the attached files that it tells of are not those of the manifest"
    assert [entry.key for entry in shelved.storage.list("")] == [PREFIX + file.path]


def test_a_header_behind_the_schema_message_counts_as_a_part(shelved: Shelved) -> None:
    """The members of a joined file, in one file that says nothing of what it was made of."""
    body = body_of(1, lines_member(0, 1), rows_member(row(1, "a")))
    body += body_of(2, lines_member(2), rows_member(row(0, "b")))
    file = shelved.put(1, body)
    assert photos(file) == {1: ["a.jpg"], 2: ["b.jpg"]}
    made = shelved.erased(file, 1)
    assert isinstance(made, DataFile)
    check(shelved, made)
    assert photos(made) == {2: ["b.jpg"]}


NAMES = st.sampled_from(["a", "b", "c", None])
FILES = st.lists(
    st.tuples(
        st.lists(st.lists(NAMES, max_size=2), min_size=1, max_size=4),
        st.booleans(),
        st.integers(1, 3),
        st.booleans(),
    ),
    min_size=1,
    max_size=5,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.integers(0, 5), st.integers(2, 4)),
        st.tuples(st.just("erase"), st.integers(0, 5), st.integers(1, 15)),
    ),
    max_size=6,
)


def a_file(
    shelved: Shelved, number: int, messages: list[list[str | None]], header: bool, size: int, own: bool
) -> DataFile:
    """``size`` messages a member; the rows behind each member, or all of them at the end; ``own``: the SCHEMA message
    in a member of its own."""
    first = shelved.offset
    members, waiting = [], list[Attached]()
    for at in range(0, len(messages), size):
        part = messages[at : at + size]
        lines = b"".join(record(first + at + place) for place in range(len(part)))
        rows = [row(at + place, name) for place, names in enumerate(part) for name in names]
        members.append(compress_member(lines, 1))
        if own:
            members.append(attached_members(rows))
        else:
            waiting += rows
    members.append(attached_members(waiting))
    body = body_of(number, *members, has_header=header)
    return shelved.put(number, body)


@given(FILES, STEPS)
def test_any_sequence_of_joins_and_erasures_keeps_each_row_with_its_record(
    files: list[tuple[list[list[str | None]], bool, int, bool]], steps: list[tuple[str, int, int]]
) -> None:
    shelved = new_shelf()
    state = [a_file(shelved, number, *each) for number, each in enumerate(files, 1)]
    told = {offset: sources for file in state for offset, sources in photos(file).items()}
    expected = [names for messages, *_ in files for names in messages]
    assert told == {
        offset: [f"{name}.jpg" if name else "gone.jpg" for name in names]
        for offset, names in enumerate(expected)
        if names
    }
    gone: set[int] = set()
    for kind, first, second in steps:
        start = first % len(state)
        if kind == "join":
            run = state[start : start + second]
            if len(run) > 1:
                made = shelved.joined(run)
                assert rows_in_a_row(run) == made.attached
                state[start : start + len(run)] = [made]
        else:
            file = state[start]
            wanted = [file.offset + at for at in range(file.messages) if second >> at % 4 & 1]
            made_or_not = shelved.erased(file, *wanted)
            assert not isinstance(made_or_not, Finding)
            gone |= set(wanted)
            state[start] = made_or_not or file
        for file in state:
            check(shelved, file)
        now = {offset: sources for file in state for offset, sources in photos(file).items()}
        assert now == {offset: sources for offset, sources in told.items() if offset not in gone}


def test_a_file_may_begin_without_a_schema_member_of_its_own(shelved: Shelved) -> None:
    text = schema_line() + record(0) + record(1)
    file = shelved.put(1, compress_member(text, 1) + rows_member(row(0, "a"), row(1, "b")))
    made = shelved.erased(file, 0)
    assert isinstance(made, DataFile)
    check(shelved, made)
    assert photos(made) == {1: ["b.jpg"]}
    assert io.BytesIO(shelved.body(made)).read(2) == b"\x1f\x8b"

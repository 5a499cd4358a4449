"""What a scan takes for rows of attached files, and what it does not."""

from __future__ import annotations

import msgspec
import pytest

from singerlake.attached.members import attached_members
from singerlake.format.extra_fields import Provenance, empty_member
from singerlake.singer_file import compress_member
from singerlake.storage.port import Entry
from singerlake.upkeep.rebuild.survey import open_survey_journal
from singerlake.upkeep.scanned_file import identify
from singerlake.upkeep.vacuum.join import provenance_members
from tests.fakes import START
from tests.upkeep.attached.data_files import body_of, lines_member, row, rows_member, scanned
from tests.upkeep.shelf import file_id, header, record, schema_line

FRONT = Provenance(id=file_id(9), lineage="l", offset=0, replaces=((file_id(1), 2), (file_id(2), 3)))


def test_rows_stand_behind_the_messages_that_they_tell_of() -> None:
    rows = [row(0, "a"), row(1, None), row(2, "b"), row(2, "a")]
    body = body_of(1, lines_member(0, 1), attached_members(rows[:2]), lines_member(2), attached_members(rows[2:]))
    facts = scanned(body)
    assert list(facts.attached) == rows
    assert (facts.messages, [messages for _, messages in facts.members]) == (3, [2, 1])


def test_rows_in_another_order_are_put_into_that_of_their_messages() -> None:
    late = [row(2, "b"), row(1, None), row(2, "a")]
    body = body_of(1, lines_member(0, 1, 2), rows_member(*late), lines_member(3), rows_member(row(3, "c"), row(0, "a")))
    assert scanned(body).attached == (row(0, "a"), row(1, None), row(2, "b"), row(2, "a"), row(3, "c"))


def test_several_members_in_a_row_are_joined() -> None:
    rows = [row(0, f"{number}") for number in range(300)]
    body = body_of(1, lines_member(0), attached_members(rows))
    assert list(scanned(body).attached) == rows
    assert body.count(b'"attached"') > 3


@pytest.mark.parametrize("has_header", [True, False])
def test_a_file_of_one_member_may_have_rows_behind_it(has_header: bool) -> None:
    text = schema_line() + record(0) + record(1)
    body = compress_member(text, 1, extra=header(1) if has_header else None) + rows_member(row(1, "a"))
    assert scanned(body).attached == (row(1, "a"),)


def test_rows_of_a_part_count_from_its_header() -> None:
    two = body_of(1, lines_member(0, 1), rows_member(row(1, "a"))) + body_of(2, lines_member(2, 3, 4))
    body = provenance_members(FRONT) + two + rows_member(row(0, "b"), row(2, "c"))
    assert scanned(body).attached == (row(1, "a"), row(2, "b"), row(4, "c"))


def test_rows_of_a_part_without_a_header_count_from_where_its_original_begins() -> None:
    two = body_of(1, lines_member(0, 1)) + body_of(2, lines_member(2, 3, 4), has_header=False)
    body = provenance_members(FRONT) + two + rows_member(row(0, "b"), row(2, "c"))
    assert scanned(body).attached == (row(2, "b"), row(4, "c"))


def test_rows_right_behind_a_header_tell_of_nothing_before_it() -> None:
    body = (
        body_of(1, lines_member(0, 1)) + compress_member(schema_line(), 1, extra=header(2)) + rows_member(row(0, "a"))
    )
    assert scanned(body + lines_member(2)).attached == ()


@pytest.mark.parametrize(
    "members",
    [
        [rows_member(row(0, "a")), lines_member(0)],
        [lines_member(0), rows_member(row(1, "a")), lines_member(1)],
        [lines_member(0), rows_member(row(0, "a"), row(1, "a")), lines_member(1)],
        [lines_member(0), empty_member(b'{"attached":[[-1,"photo","x",null,null,null,1]]}')],
        [lines_member(0), empty_member(b'{"attached":[[0,"photo","x","../../x",5,"t",1]]}')],
        [lines_member(0), empty_member(b'{"attached":[')],
        [lines_member(0), compress_member(record(1), 1, extra=b'{"attached":[[0,"p","x",null,null,null,1]]}')],
        [
            lines_member(0),
            compress_member(record(1)[:9], 1),
            rows_member(row(0, "a")),
            compress_member(record(1)[9:], 1),
        ],
        [
            lines_member(0),
            empty_member(msgspec.json.encode(FRONT)[:-1] + b',"attached":[[0,"p","x",null,null,null,1]]}'),
        ],
    ],
    ids=[
        "before",
        "beyond",
        "one beyond",
        "negative",
        "no checksum",
        "cut",
        "in a member with text",
        "in a line",
        "two",
    ],
)
def test_what_else_looks_like_rows_tells_of_nothing(members: list[bytes]) -> None:
    facts = scanned(body_of(1, *members))
    assert facts.attached == ()
    assert facts.messages in (1, 2)


def test_a_cut_copy_has_the_rows_up_to_the_cut() -> None:
    body = body_of(1, lines_member(0), rows_member(row(0, "a")), lines_member(1), rows_member(row(1, "b")))
    for at, rows in ((1, ()), (2, (row(0, "a"),))):
        cut = body_of(1, *[lines_member(0), rows_member(row(0, "a"))][:at])
        assert body.startswith(cut)
        assert scanned(cut).attached == rows


def entry(body: bytes) -> Entry:
    return Entry("raw/t/s/v/x.singer.gz", len(body), START, "etag")


@pytest.mark.parametrize("source", ["plain.jpg", "\ud800.jpg", "\udfff\ud800", '\x00"\\é日'])
def test_a_survey_and_its_journal_keep_the_rows_whatever_text_is_in_them(source: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    told = msgspec.structs.replace(row(0, "a"), source=source)
    body = body_of(1, lines_member(0), attached_members([told]))
    facts = scanned(body)
    assert facts.attached == (told,)
    file = identify("v/x.singer.gz", START, facts)
    assert file.facts.attached == (told,)
    with open_survey_journal(tmp_path / "journal", "lake") as journal:
        journal.note(entry(body), file)
    with open_survey_journal(tmp_path / "journal", "lake") as journal:
        known = journal.known("raw/t/s/", entry(body))
    if "\ud800" in source:
        assert known is None
        return
    assert known is not None
    assert known.facts.attached == (told,)

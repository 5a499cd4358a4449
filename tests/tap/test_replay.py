"""Where output is cut and bookmarks are told, for any blocks, any pace and any limit."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.files.data_file import DataFile
from singerlake.singer_file import Block
from tap_singerlake.catalog.catalog import Overrides
from tap_singerlake.conversion import Passthrough
from tap_singerlake.replay import FileEnd, MessageBlock, Replay, SchemaLine

SCHEMA = b'{"type":"SCHEMA","stream":"s","schema":{"properties":{}},"key_properties":[]}\n'
RECORD = b'{"type":"RECORD","stream":"s","record":{"id":%d}}\n'
ACTIVATE = b'{"type":"ACTIVATE_VERSION","stream":"s","version":%d}\n'
FILES = st.lists(
    st.lists(st.lists(st.sampled_from([RECORD, ACTIVATE]), min_size=1, max_size=6), min_size=1, max_size=3), max_size=4
)
"""Files of blocks of messages."""


def events_of(files, offset=0):
    """What a reader gives for ``files``, from an offset on, and all messages with their numbers filled in."""
    lines, events, place = [], [], 0
    for number, blocks in enumerate(files):
        kinds = [kind for block in blocks for kind in block]
        file = a_file(f"file{number}", place, len(kinds), kinds.count(RECORD))
        if file.end > offset:
            events.append(SchemaLine(SCHEMA))
        for block in blocks:
            texts = [kind % (place + index) for index, kind in enumerate(block)]
            kept = texts[max(0, offset - place) :]
            if kept:
                start = place + len(texts) - len(kept)
                events.append(MessageBlock(Block(b"".join(kept), start, len(kept)), file, "lineage"))
            lines += texts
            place += len(texts)
        if file.end > offset:
            events.append(FileEnd(Bookmark(lineage="lineage", offset=file.end, file=file.id, line=file.messages)))
    return events, lines


def a_file(name, offset, messages, records):
    return DataFile(
        id=name,
        path=name,
        version="v",
        messages=messages,
        records=records,
        bytes=1,
        raw_bytes=1,
        sha256="",
        first="",
        last="",
        members=((0, messages),),
        offset=offset,
    )


def run(events, *, every=3, limit=None):
    """The messages a run writes, each checkpoint with how many messages were written before it, and the records it
    counted."""
    written, checkpoints = [], []

    def write(lines):
        written.extend(line for line in bytes(lines).splitlines(keepends=True) if line != SCHEMA)

    replay = Replay(
        Passthrough(Overrides(None, {}, {})),
        write=write,
        checkpoint=lambda bookmark: checkpoints.append((bookmark, len(written))),
        every=every,
        limit=limit,
    )
    return written, checkpoints, sum(replay.run(events))


@settings(deadline=None)
@given(FILES, st.integers(1, 8))
def test_everything_is_written_once_and_in_order(files, every):
    events, lines = events_of(files)
    written, _, records = run(events, every=every)
    assert written == lines
    assert records == sum(line.startswith(RECORD[:16]) for line in lines)


@settings(deadline=None)
@given(FILES, st.integers(1, 8))
def test_a_bookmark_says_exactly_what_was_written_before_it(files, every):
    events, lines = events_of(files)
    _, checkpoints, _ = run(events, every=every)
    assert all(bookmark.offset == written for bookmark, written in checkpoints)
    assert [bookmark.offset for bookmark, _ in checkpoints][-1:] == ([len(lines)] if lines else [])


@settings(deadline=None)
@given(FILES, st.integers(1, 8))
def test_no_more_messages_lie_between_two_bookmarks_than_asked_for(files, every):
    events, _ = events_of(files)
    told = [0] + [written for _, written in run(events, every=every)[1]]
    assert all(0 < later - earlier <= every for earlier, later in itertools.pairwise(told))


@settings(deadline=None)
@given(FILES, st.integers(1, 8), st.data())
def test_a_run_from_any_bookmark_writes_exactly_the_rest(files, every, data):
    events, lines = events_of(files)
    checkpoints = run(events, every=every)[1]
    offset = data.draw(st.sampled_from([0] + [bookmark.offset for bookmark, _ in checkpoints]))
    assert run(events_of(files, offset)[0], every=every)[0] == lines[offset:]


@settings(deadline=None)
@given(FILES, st.integers(1, 8), st.integers(1, 10))
def test_runs_with_a_limit_add_up_to_one_without(files, every, limit):
    _, lines = events_of(files)
    total, offset = [], 0
    while offset < len(lines):
        written, checkpoints, records = run(events_of(files, offset)[0], every=every, limit=limit)
        assert records <= limit
        total += written
        assert checkpoints[-1][0].offset == offset + len(written) > offset
        offset = checkpoints[-1][0].offset
    assert total == lines


def test_files_that_are_passed_over_move_the_bookmark_at_the_end():
    end = Bookmark(lineage="lineage", offset=7, file="passed", line=7)
    written, checkpoints, _ = run([FileEnd(end)])
    assert written == []
    assert checkpoints == [(end, 0)]


def test_nothing_new_tells_no_bookmark():
    assert run([]) == ([], [], 0)

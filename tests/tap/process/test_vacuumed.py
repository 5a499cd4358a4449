"""Replays that a vacuum comes upon, and the removal of what it replaced: no message is missed, none comes twice."""

from __future__ import annotations

import json

import pytest

from singerlake.format import layout
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.model import Manifest
from singerlake.lake import Lake
from singerlake.singer_file import Block
from singerlake.upkeep.context import StreamContext
from singerlake.upkeep.vacuum.vacuum import vacuum_stream
from tap_singerlake.replay import MessageBlock, Reader
from tests.lakes import build_stream
from tests.tap.runs import V1, V2, replay


@pytest.fixture
def lake(root) -> Lake:
    """Ids 0 to 49 as v1, 50 to 69 as v2, 70 to 89 as v1 again; ten a file, three a gzip member."""
    made = Lake.open(str(root))
    for schema, numbers in ((V1, range(50)), (V2, range(50, 70)), (V1, range(70, 90))):
        build_stream(made, "tap-a", "s", schema, [{"id": n} for n in numbers], file_size=10, member_size=3)
    return made


def vacuum(lake: Lake, messages=(50, 20, 20)) -> Manifest:
    """Join what can be, and remove what was replaced, as a collection does in the end."""
    stream = lake.stream("tap-a", "s")
    done = vacuum_stream(
        StreamContext(lake.storage, "tap-a", "s", lake.clock, lake.ids, stream.store()), target_bytes=1 << 20
    )
    assert done.findings == ()
    after = stream.snapshot()
    assert [file.messages for file in after.files] == list(messages)
    for gone in after.retired:
        lake.storage.delete(stream.prefix + gone.path)
    return after


def ids(blocks: list[Block]) -> list[int]:
    return [json.loads(line)["record"]["id"] for block in blocks for line in block.data.splitlines()]


def blocks_of(reader: Reader, *, most: int = 1000) -> list[Block]:
    """The blocks that a reader gives, up to so many."""
    found = []
    for event in reader.events(reader.stream.snapshot()):
        if isinstance(event, MessageBlock):
            found.append(event.block)
            if len(found) == most:
                break
    return found


def test_a_run_reads_the_same_lines_from_the_joined_files(lake, root):
    before = replay(root)
    vacuum(lake)
    after = replay(root)
    assert after.records("s") == before.records("s") == [{"id": n} for n in range(90)]
    assert [message["schema"] for message in after.of("SCHEMA")] == [V1, V2, V1]


@pytest.mark.parametrize("most", range(1, 10))
def test_a_bookmark_goes_on_in_the_joined_file_wherever_it_stands(lake, most):
    reader = Reader(lake.stream("tap-a", "s"))
    first = ids(blocks_of(reader, most=most))
    assert reader.position is not None
    vacuum(lake)
    rest = ids(blocks_of(Reader(lake.stream("tap-a", "s"), position=reader.position)))
    assert first + rest == list(range(90))


@pytest.mark.sampled(at=5)
@pytest.mark.parametrize("at", range(0, 90, 3))
def test_a_bookmark_in_a_joined_file_outlives_that_file_and_the_lake_s_state(lake, at):
    stream = lake.stream("tap-a", "s")
    before = vacuum(lake)
    (file,) = [file for file in before.files if file.offset <= at < file.end]
    bookmark = Bookmark(lineage=before.lineage, offset=at, file=file.id, line=at - file.offset)
    for start, count, messages in ((90, 20, [50, 20, 40]), (110, 40, [50, 20, 80])):
        more = [{"id": n} for n in range(start, start + count)]
        build_stream(lake, "tap-a", "s", V1, more, file_size=10, member_size=3)
        vacuum(lake, messages)
    lake.storage.delete(layout.manifest_key("tap-a", "s"))
    stream.writer(writer_id="w").store.create(stream.rebuilt(lineage="another"))
    assert ids(blocks_of(Reader(stream, position=bookmark))) == list(range(at, 150))


def test_a_run_s_state_is_good_after_the_vacuum(lake, root):
    state = replay(root).state
    vacuum(lake)
    build_stream(lake, "tap-a", "s", V1, [{"id": n} for n in range(90, 95)])
    assert replay(root, state=state).records("s") == [{"id": n} for n in range(90, 95)]


@pytest.mark.sampled(at=4)
@pytest.mark.parametrize("at", range(0, 90, 7))
def test_files_that_are_joined_and_removed_while_a_run_reads_them_cost_no_message(lake, at):
    stream = lake.stream("tap-a", "s")
    seen, joined = [], False
    for event in Reader(stream).events(stream.snapshot()):
        if isinstance(event, MessageBlock):
            seen.append(event.block)
            if not joined and event.block.offset + event.block.messages > at:
                joined = bool(vacuum(lake))
    assert joined
    assert ids(seen) == list(range(90))

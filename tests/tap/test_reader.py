"""Reading one stream while it changes, and while its files are not what they should be."""

from __future__ import annotations

import gzip
import json

import msgspec
import pytest

from singerlake import reading
from singerlake.clock import SystemClock, random_id
from singerlake.errors import BrokenFileError, CorruptObjectError, LostBookmarkError, MissingFileError, UnknownNameError
from singerlake.format import layout
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import Manifest
from singerlake.lake import Lake
from singerlake.reading import verified
from singerlake.singer_file import Block
from tap_singerlake.replay import FileEnd, MessageBlock, Reader, SchemaLine
from tests.lakes import build_stream, record_line
from tests.storage.memory import MemoryStorage, Step
from tests.tap.runs import V1, V2

KEY = layout.manifest_key("tap-a", "s")


class FarStorage(MemoryStorage):
    """One whose objects come from another machine."""

    near = False


@pytest.fixture(params=[MemoryStorage, FarStorage], ids=["near", "far"])
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MemoryStorage:
    monkeypatch.setattr(reading, "RANGE", 70)
    made: MemoryStorage = request.param(clock=SystemClock(), ids=random_id)
    return made


@pytest.fixture
def memory_lake(storage: MemoryStorage) -> Lake:
    """Ids 0 to 19 as v1, 20 to 29 as v2, 30 to 39 as v1 again; ten a file, three a gzip member."""
    lake = Lake(storage)
    for schema, numbers in ((V1, range(20)), (V2, range(20, 30)), (V1, range(30, 40))):
        build_stream(lake, "tap-a", "s", schema, [{"id": n} for n in numbers], file_size=10, member_size=3)
    return lake


def ids(events) -> list[int]:
    lines = [line for event in events if isinstance(event, MessageBlock) for line in event.block.data.splitlines()]
    return [json.loads(line)["record"]["id"] for line in lines]


def read(lake: Lake, **options) -> list[SchemaLine | MessageBlock | FileEnd]:
    stream = lake.stream("tap-a", "s")
    return list(Reader(stream, **options).events(stream.snapshot()))


def change(storage: MemoryStorage, edit) -> Manifest:
    """Put another manifest in the place of the stored one, as another process would."""
    stored = storage.get(KEY)
    assert stored is not None
    fresh = edit(from_json(stored.body, key=KEY))
    storage.put(KEY, to_json(fresh))
    return fresh


def test_messages_come_in_order_each_behind_its_own_schema(memory_lake):
    events = read(memory_lake)
    assert ids(events) == list(range(40))
    schemas = [json.loads(event.line)["schema"] for event in events if isinstance(event, SchemaLine)]
    assert schemas == [V1, V1, V2, V1]


@pytest.mark.parametrize("offset", [0, 1, 9, 10, 25, 39, 40])
def test_a_reader_goes_on_at_any_offset(memory_lake, offset):
    lineage = memory_lake.stream("tap-a", "s").snapshot().lineage
    assert ids(read(memory_lake, position=Bookmark(lineage=lineage, offset=offset))) == list(range(offset, 40))


def test_from_version_keeps_what_comes_later_under_another_schema(memory_lake):
    assert ids(read(memory_lake, from_version="v2")) == list(range(20, 40))


def test_a_bookmark_wins_over_from_version_even_one_that_is_unknown_by_now(memory_lake):
    lineage = memory_lake.stream("tap-a", "s").snapshot().lineage
    bookmark = Bookmark(lineage=lineage, offset=5)
    assert ids(read(memory_lake, position=bookmark, from_version="v9")) == list(range(5, 40))


def test_versions_pass_files_over_and_the_bookmark_moves_past_them(memory_lake):
    events = read(memory_lake, versions=("v1",))
    assert ids(events) == [*range(20), *range(30, 40)]
    assert [event.bookmark.offset for event in events if isinstance(event, FileEnd)] == [10, 20, 30, 40]
    assert read(memory_lake, versions=("v2",))[-1].bookmark.offset == 40


def test_an_unknown_version_is_an_error_that_lists_those_there_are(memory_lake):
    for options in ({"from_version": "v7"}, {"versions": ("v1", "v7")}):
        with pytest.raises(UnknownNameError, match=r"no version 'v7'.*v1.*v2"):
            read(memory_lake, **options)


def test_a_bookmark_beyond_the_end_waits_and_warns(memory_lake, caplog):
    lineage = memory_lake.stream("tap-a", "s").snapshot().lineage
    assert read(memory_lake, position=Bookmark(lineage=lineage, offset=40)) == []
    assert caplog.messages == []
    assert read(memory_lake, position=Bookmark(lineage=lineage, offset=41, file="gone", line=1)) == []
    (warning,) = caplog.messages
    assert "at offset 41, and the stream ends at 40" in warning


def test_a_bookmark_of_another_lineage_is_found_by_its_file(memory_lake):
    file = memory_lake.stream("tap-a", "s").snapshot().files[1]
    bookmark = Bookmark(lineage="an-older-one", offset=777, file=file.id, line=4)
    assert ids(read(memory_lake, position=bookmark)) == list(range(14, 40))


def test_a_bookmark_whose_file_nobody_knows_is_an_error(memory_lake):
    with pytest.raises(LostBookmarkError, match="full-refresh"):
        read(memory_lake, position=Bookmark(lineage="an-older-one", offset=7, file="0123456789abcdef", line=4))


@pytest.mark.parametrize(
    "edit",
    [
        lambda manifest: manifest.update(files=[]),
        lambda manifest: manifest["files"].pop(),
        lambda manifest: manifest["files"].pop(0),
        lambda manifest: manifest["files"].pop(1),
        lambda manifest: manifest["files"].reverse(),
        lambda manifest: manifest["files"].append(manifest["files"][-1]),
        lambda manifest: manifest["files"][1].update(offset=manifest["files"][1]["offset"] - 1),
        lambda manifest: manifest["files"][1].update(messages=1),
        lambda manifest: manifest.update(next_offset=manifest["next_offset"] + 1),
    ],
)
def test_a_manifest_that_contradicts_itself_is_told_and_never_read_short_or_twice(storage, memory_lake, edit):
    body = json.loads(storage.get(KEY).body)
    edit(body)
    storage.put(KEY, json.dumps(body).encode())
    with pytest.raises(CorruptObjectError, match="the manifest contradicts itself"):
        read(memory_lake)


def test_a_file_replaced_while_it_is_read_costs_a_new_look_and_no_message(storage, memory_lake):
    """The third file moves to another key, as vacuum and collection do it, when the reader is in the second."""
    stream = memory_lake.stream("tap-a", "s")
    seen = []
    for event in Reader(stream).events(stream.snapshot()):
        seen.append(event)
        if isinstance(event, MessageBlock) and event.block.offset == 13:
            move_third_file(storage, stream.prefix)
    assert stream.snapshot().files[2].path.endswith("-moved.singer.gz")
    assert ids(seen) == list(range(40))


def move_third_file(storage: MemoryStorage, prefix: str) -> None:
    def edit(manifest: Manifest) -> Manifest:
        old = manifest.files[2]
        new = msgspec.structs.replace(old, id=random_id(), path=old.path + "-moved.singer.gz")
        stored = storage.get(prefix + old.path)
        assert stored is not None
        storage.put(prefix + new.path, stored.body)
        storage.delete(prefix + old.path)
        return msgspec.structs.replace(manifest, files=(*manifest.files[:2], new, *manifest.files[3:]))

    change(storage, edit)


def test_a_file_that_is_still_listed_and_not_there_is_an_error(storage, memory_lake):
    stream = memory_lake.stream("tap-a", "s")
    storage.delete(stream.prefix + stream.snapshot().files[1].path)
    reader, seen = Reader(stream), []
    with pytest.raises(MissingFileError, match=r"the manifest lists is not there; run 'singerlake verify'"):
        seen.extend(event for event in reader.events(stream.snapshot()))
    assert reader.position is not None
    assert reader.position.offset == 10


def test_a_storage_that_stops_answering_ends_the_run_with_its_own_error(storage, memory_lake):
    def fail(step: Step) -> None:
        if step.operation == ("open" if storage.near else "read_range"):
            raise ConnectionError(step.key)

    storage.hook = fail
    with pytest.raises(ConnectionError):
        read(memory_lake)


@pytest.mark.parametrize("damage", ["flip a bit", "cut", "swap with another file"])
def test_nothing_of_a_damaged_member_is_passed_on(storage, memory_lake, damage):
    stream = memory_lake.stream("tap-a", "s")
    file = stream.snapshot().files[0]
    key = stream.prefix + file.path
    stored = storage.get(key)
    assert stored is not None
    body = bytearray(stored.body)
    last_member = file.members[-1][0]
    if damage == "flip a bit":
        body[last_member + 14] ^= 1
    elif damage == "cut":
        del body[-5:]
    else:
        body[last_member:] = body[file.members[0][0] :]
    storage.put(key, bytes(body))
    seen = []
    with pytest.raises(BrokenFileError):
        seen.extend(event for event in Reader(stream).events(stream.snapshot()))
    assert ids(seen) in (list(range(6)), list(range(9))), "what lies before the damage, but for a member at most"


@pytest.mark.parametrize("damage", ["a bit of the schema", "the last bit", "cut"])
def test_no_schema_message_of_a_damaged_member_is_passed_on(storage, damage):
    """It stands in one member with the records."""
    schema = json.dumps({"type": "SCHEMA", "stream": "s", "schema": V1}).encode() + b"\n"
    text = schema + b"".join(record_line("s", {"id": n}) + b"\n" for n in range(10))
    # Not deflated, so that a bit of the text is a bit of the file.
    body = bytearray(gzip.compress(text, compresslevel=0))
    if damage == "a bit of the schema":
        body[body.index(b"integer")] ^= 1
    elif damage == "the last bit":
        body[-9] ^= 1
    else:
        del body[-20:]
    lake = Lake(storage)
    build_stream(lake, "tap-a", "s", V1, [{"id": n} for n in range(10)])

    def edit(manifest: Manifest) -> Manifest:
        (file,) = manifest.files
        storage.put(lake.stream("tap-a", "s").prefix + file.path, bytes(body))
        return msgspec.structs.replace(
            manifest, files=(msgspec.structs.replace(file, members=((0, 10),), bytes=len(body)),)
        )

    change(storage, edit)
    seen = []
    with pytest.raises(BrokenFileError):
        seen.extend(Reader(lake.stream("tap-a", "s")).events(lake.stream("tap-a", "s").snapshot()))
    assert seen == []


def test_a_file_without_a_schema_message_is_broken(storage, memory_lake):
    stream = memory_lake.stream("tap-a", "s")
    file = stream.snapshot().files[0]
    stored = storage.get(stream.prefix + file.path)
    assert stored is not None
    start = file.members[0][0]
    storage.put(stream.prefix + file.path, b"\x1f\x8b\x08" + bytes(start - 3) + stored.body[start:])
    with pytest.raises(BrokenFileError):
        read(memory_lake)


def test_blocks_are_held_back_until_their_member_has_ended(memory_lake):
    file = memory_lake.stream("tap-a", "s").snapshot().files[0]
    given: list[int] = []

    def blocks():
        for offset in range(10):
            yield Block(b"x\n", offset, 1)
            assert all(seen < offset - offset % 3 for seen in given)

    for block in verified(blocks(), file):
        given.append(block.offset)
    assert given == list(range(10))


def test_a_lake_whose_manifest_is_gone_is_read_from_its_files(storage, memory_lake):
    storage.delete(KEY)
    events = read(memory_lake)
    assert ids(events) == list(range(40))
    assert events[-1].bookmark.lineage is None


def test_one_schema_ends_where_it_was_made_although_the_stream_grows_by_another_version(storage, memory_lake):
    """The third file moves, and another version comes, when the reader is in the second."""
    stream = memory_lake.stream("tap-a", "s")
    seen = []
    for event in Reader(stream, one_schema=True).events(stream.snapshot()):
        seen.append(event)
        if isinstance(event, MessageBlock) and event.block.offset == 13:
            build_stream(memory_lake, "tap-a", "s", {"type": "object"}, [{"id": "new"}])
            move_third_file(storage, stream.prefix)
    assert stream.snapshot().files[2].path.endswith("-moved.singer.gz")
    assert ids(seen) == list(range(40))
    (line,) = {event.line for event in seen if isinstance(event, SchemaLine)}
    assert json.loads(line)["schema"] == V2
    assert ids(read(memory_lake, one_schema=True)) == [*range(40), "new"]

"""Segments as objects: written once, read with their checksum, and refused in plain words where they are not right."""

from __future__ import annotations

import gzip

import msgspec
import pytest
from hypothesis import given

from singerlake.errors import CorruptObjectError, StorageUnavailableError
from singerlake.format import layout
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.segment import Segment
from singerlake.storage.port import Refused, Written
from singerlake.stores.segments import objects
from singerlake.stores.segments.objects import SegmentObjects
from tests.fakes import FakeClock, counting_ids
from tests.format.state.files.lists import file_at, lists_of_files
from tests.storage.memory import MemoryStorage

FILES = [file_at(place, place) for place in range(12)]


@pytest.fixture(autouse=True)
def nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_KEPT", 0)


def empty() -> MemoryStorage:
    return MemoryStorage(clock=FakeClock(), ids=counting_ids())


def key_of(segment: Segment) -> str:
    return layout.segment_key("t", "s", segment.name)


def pieces() -> list[list[DataFile]]:
    return [FILES[start : start + 3] for start in range(0, 12, 3)]


@given(lists_of_files(least=1))
def test_what_was_written_is_read(files: list[DataFile]) -> None:
    storage = empty()
    [segment] = SegmentObjects(storage, "t", "s").write([files])
    assert SegmentObjects(storage, "t", "s").load(segment) == files
    assert segment.name.startswith(f"{files[0].offset:020d}-")
    assert (segment.offset, segment.end, segment.files) == (files[0].offset, files[-1].end, len(files))


def test_any_gzip_reader_reads_one_and_finds_what_manifest_json_would_list() -> None:
    storage = empty()
    [segment] = SegmentObjects(storage, "t", "s").write([FILES])
    stored = storage.get(f"raw/t/s/_segments/{segment.name}.json.gz")
    assert stored is not None
    text = gzip.decompress(stored.body)
    assert text.startswith(b'[{"id":"%b","path":"v/s-' % FILES[0].id.encode())


def test_many_are_written_and_read_in_their_order() -> None:
    storage = empty()
    segments = SegmentObjects(storage, "t", "s").write(pieces())
    assert [segment.offset for segment in segments] == [0, 3, 6, 9]
    assert [list(run) for run in SegmentObjects(storage, "t", "s").load_each(segments)] == pieces()
    assert len({segment.name for segment in segments}) == 4


def test_two_that_write_the_same_files_write_two_segments() -> None:
    storage = empty()
    one, two = (SegmentObjects(storage, "t", "s").write([FILES])[0] for _ in range(2))
    assert one.name != two.name
    assert one.sha256 == two.sha256


def test_those_read_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "_KEPT", 2)
    storage = empty()
    source = SegmentObjects(storage, "t", "s")
    segments = source.write(pieces())
    for segment in segments:
        source.load(segment)
    for segment in segments:
        storage.delete(key_of(segment))
    assert [list(source.load(segment)) for segment in segments[2:]] == pieces()[2:]
    with pytest.raises(CorruptObjectError, match="is gone"):
        source.load(segments[1])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (None, "a segment of the stream's state is gone"),
        (b"", "a segment of the stream's state is damaged"),
        (b"no gzip", "a segment of the stream's state is damaged"),
        (gzip.compress(b"[]", mtime=0), "has another checksum than the state says"),
        (gzip.compress(objects.to_text(FILES[1:])), "has another checksum than the state says"),
    ],
)
def test_what_is_not_right_is_named(body: bytes | None, said: str) -> None:
    storage = empty()
    source = SegmentObjects(storage, "t", "s")
    one, two = source.write([FILES[:6], FILES[6:]])
    if body is None:
        storage.delete(key_of(two))
    else:
        storage.put(key_of(two), body)
    for read in (lambda: source.load(two), lambda: list(source.load_each([one, two, one]))):
        with pytest.raises(CorruptObjectError, match=said) as caught:
            read()
        assert key_of(two) in str(caught.value)
        assert "singerlake rebuild --discard-manifest" in str(caught.value)


def test_one_that_is_cut_short_is_damaged() -> None:
    storage = empty()
    source = SegmentObjects(storage, "t", "s")
    [segment] = source.write([FILES])
    stored = storage.get(key_of(segment))
    assert stored is not None
    for length in (1, 10, len(stored.body) // 2, len(stored.body) - 9, len(stored.body) - 1):
        storage.put(key_of(segment), stored.body[:length])
        with pytest.raises(CorruptObjectError, match="segment of the stream's state"):
            source.load(segment)


@pytest.mark.parametrize("text", [b"{}", b"[1]", b"[", b'[{"id":"a"}]'])
def test_what_has_the_right_checksum_and_is_no_list_of_files(text: bytes) -> None:
    storage = empty()
    source = SegmentObjects(storage, "t", "s")
    [segment] = source.write([FILES])
    storage.put(key_of(segment), gzip.compress(text))
    changed = Segment(
        name=segment.name, sha256=objects.checksum(text), offset=0, end=12, versions=segment.versions, raw_bytes=0
    )
    with pytest.raises(CorruptObjectError, match="not a segment of a stream's state"):
        source.load(changed)


@pytest.mark.parametrize("name", ["", "x", "../../../../etc/passwd", "0" * 20 + "-" + "w" * 16, "1-" + "0" * 16])
def test_a_name_that_is_none_leads_nowhere(name: str) -> None:
    segment = Segment(name=name, sha256="0" * 64, offset=0, end=1, versions={}, raw_bytes=0)
    with pytest.raises(CorruptObjectError, match="is not a segment's name") as caught:
        SegmentObjects(empty(), "t", "s").load(segment)
    assert "raw/t/s/manifest.json" in str(caught.value)


@pytest.mark.parametrize("change", [{"offset": 1}, {"end": 13}, {"versions": {}}])
def test_what_the_state_says_otherwise_of_its_files(change: dict[str, object]) -> None:
    source = SegmentObjects(empty(), "t", "s")
    [segment] = source.write([FILES])
    with pytest.raises(CorruptObjectError, match="has other files than the state says"):
        source.load(msgspec.structs.replace(segment, **change))


class LostReplies(MemoryStorage):
    """Answers that a write was refused, though it took effect."""

    def put(self, key: str, body: bytes, **conditions: object) -> Written | Refused:
        super().put(key, body, **conditions)  # type: ignore[arg-type]
        return Refused()


def test_a_write_that_took_effect_and_was_refused_counts() -> None:
    storage = LostReplies(clock=FakeClock(), ids=counting_ids())
    [segment] = SegmentObjects(storage, "t", "s").write([FILES])
    assert SegmentObjects(storage, "t", "s").load(segment) == FILES


def test_a_name_that_another_segment_has_is_not_overwritten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objects, "random_id", lambda: "0" * 16)
    storage = empty()
    source = SegmentObjects(storage, "t", "s")
    [segment] = source.write([FILES])
    with pytest.raises(CorruptObjectError, match="another segment has the name"):
        source.write([FILES[:3]])
    assert source.load(segment) == FILES


class Down(MemoryStorage):
    """Storage that fails from the third write on."""

    writes = 0

    def put(self, key: str, body: bytes, **conditions: object) -> Written | Refused:
        self.writes += 1
        if self.writes > 2:
            raise StorageUnavailableError("down", hint="wait")
        return super().put(key, body, **conditions)  # type: ignore[arg-type]


def test_a_write_that_fails_is_the_error_of_all() -> None:
    with pytest.raises(StorageUnavailableError):
        SegmentObjects(Down(clock=FakeClock(), ids=counting_ids()), "t", "s").write(pieces())

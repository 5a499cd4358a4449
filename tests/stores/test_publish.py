"""Publishing, of large manifests too, of which only the beginning is read: forward only, and never over another's."""

from __future__ import annotations

import msgspec
import pytest

from singerlake.errors import ForeignManifestError, UnsupportedFormatError
from singerlake.format import FORMAT
from singerlake.format.state.files.cut import Sizes
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import Manifest
from singerlake.stores import publish
from singerlake.stores.publish import publish_manifest, published
from singerlake.stores.segments import stored
from singerlake.stores.segments.objects import SegmentObjects
from singerlake.stores.segments.stored import names_of
from tests.fakes import FakeClock, counting_ids
from tests.format.state.test_fold import add, born, done, new_file
from tests.storage.memory import MemoryStorage, Step

KEY = "raw/t/s/manifest.json"


@pytest.fixture(params=[False, True], ids=["small", "large"])
def storage(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> MemoryStorage:
    if request.param:
        monkeypatch.setattr(publish, "_LARGE", 0)
    return MemoryStorage(clock=FakeClock(), ids=counting_ids())


def there(storage: MemoryStorage) -> Manifest:
    found = storage.get(KEY)
    assert found is not None
    return from_json(found.body, key=KEY)


def states(name: str = 'q"\\\u2028') -> list[Manifest]:
    """Three states of a stream, one after the other, whose names need escapes."""
    first = msgspec.structs.replace(born(), tap=name, stream=name)
    second = done(first, add(new_file("a")))
    return [first, second, done(second, add(new_file("b")))]


def test_it_goes_forward_only(storage: MemoryStorage) -> None:
    one, two, three = states()
    for state, expected in ((one, one), (three, three), (two, three), (three, three)):
        publish_manifest(SegmentObjects(storage, "t", "s"), state)
        assert there(storage) == expected


def test_a_newer_state_that_comes_meanwhile_stays(storage: MemoryStorage) -> None:
    one, two, three = states()
    publish_manifest(SegmentObjects(storage, "t", "s"), one)
    waiting = [three]

    def other(step: Step) -> None:
        if step.operation == "put" and not step.done and waiting:
            publish_manifest(SegmentObjects(storage, "t", "s"), waiting.pop())

    storage.hook = other
    publish_manifest(SegmentObjects(storage, "t", "s"), two)
    assert there(storage) == three


@pytest.mark.parametrize("change", [{"tap": "other"}, {"stream": "other"}, {"store": "other"}])
def test_what_is_another_s_is_not_replaced(storage: MemoryStorage, change: dict[str, str]) -> None:
    one, two, _ = states()
    publish_manifest(SegmentObjects(storage, "t", "s"), msgspec.structs.replace(one, **change))
    before = there(storage)
    with pytest.raises(ForeignManifestError):
        publish_manifest(SegmentObjects(storage, "t", "s"), two)
    assert there(storage) == before


def test_a_closed_state_gives_way_to_its_successor(storage: MemoryStorage) -> None:
    one, two, _ = states()
    publish_manifest(SegmentObjects(storage, "t", "s"), msgspec.structs.replace(one, store="before", closed=two.store))
    publish_manifest(SegmentObjects(storage, "t", "s"), two)
    assert there(storage) == two


@pytest.mark.parametrize("settled", [msgspec.UNSET, "c"])
def test_of_a_large_one_only_the_beginning_is_read(
    monkeypatch: pytest.MonkeyPatch, settled: str | msgspec.UnsetType
) -> None:
    monkeypatch.setattr(publish, "_LARGE", 0)
    monkeypatch.setattr(publish, "_SOME", 0)
    storage = MemoryStorage(clock=FakeClock(), ids=counting_ids())
    one, two, _ = (msgspec.structs.replace(state, settled=settled) for state in states())
    publish_manifest(SegmentObjects(storage, "t", "s"), one)
    asked: list[str] = []
    storage.hook = lambda step: asked.append(step.operation)
    publish_manifest(SegmentObjects(storage, "t", "s"), two)
    there = published(storage, KEY)
    assert there is not None
    assert (there.store, there.number) == (two.store, two.transaction.number)
    assert "get" not in asked


def test_a_large_head_is_read_for_its_segments_alone_which_are_named_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "SIZES", Sizes(whole=0, segment=1, tail=0))
    monkeypatch.setattr(publish, "_LARGE", 0)
    monkeypatch.setattr(publish, "_SOME", 0)
    storage = MemoryStorage(clock=FakeClock(), ids=counting_ids())
    _, one, two = states("s")
    publish_manifest(SegmentObjects(storage, "t", "s"), one)
    before = names_of(storage, KEY)
    assert before
    monkeypatch.setattr(publish, "read_manifest", lambda *_, **__: pytest.fail("another state was made"))
    publish_manifest(SegmentObjects(storage, "t", "s"), two)
    after = names_of(storage, KEY)
    assert after[: len(before)] == before
    assert len(after) == len(two.files) > len(before)


@pytest.mark.parametrize("begins", [b'{"format":%d,' % (FORMAT + 5), b'{"format":1,"features":["unheard"],'])
def test_of_what_is_not_known_nothing_is_taken_from_the_beginning(begins: bytes) -> None:
    storage = MemoryStorage(clock=FakeClock(), ids=counting_ids())
    one, two, _ = states()
    storage.put(KEY, to_json(one).replace(b'{"format":1,', begins))
    with pytest.raises(UnsupportedFormatError):
        published(storage, KEY)
    with pytest.raises(UnsupportedFormatError):
        publish_manifest(SegmentObjects(storage, "t", "s"), two)

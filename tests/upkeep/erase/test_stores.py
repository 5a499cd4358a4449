"""Erasing from a stream through whichever manifest store keeps it: what is meant is gone, and nothing else moves."""

from __future__ import annotations

import pytest

from singerlake.errors import StreamClosedError
from singerlake.format import layout
from singerlake.format.lines.holes import HOLE
from singerlake.format.state.bookmark import Bookmark
from singerlake.format.state.transactions import Close
from tests.lakes import build_stream, record_line
from tests.stores.stores import KINDS, Place
from tests.upkeep.erase.erasing import WHO, check, erase, place_of, provenance, read, who_of
from tests.upkeep.gc.test_stores import collect, days, dump
from tests.upkeep.shelf import SCHEMA
from tests.upkeep.vacuum.test_stores import PREFIX, add, begun, is_sound, messages, vacuum

pytestmark = pytest.mark.in_turn("place")


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest) -> Place:
    return place_of(request.param, request)


def test_erased_records_are_gone_and_every_other_message_keeps_its_offset_and_its_bytes(place: Place) -> None:
    before = begun(place)
    text = messages(place)
    done = erase(place, 1, 9, 10)
    assert (done.records, done.looked.files, done.replaced.files, done.findings) == (3, 5, 2, ())
    assert [(trace.key, trace.records) for trace in done.traces] == [
        (PREFIX + before.files[0].path, 1),
        (PREFIX + before.files[2].path, 2),
    ]
    check(place, text, 1, 9, 10)
    after = place.state()
    assert [(gone.id, gone.by) for gone in after.retired] == [
        (before.files[at].id, after.files[at].id) for at in (0, 2)
    ]
    assert [after.files[at] for at in (1, 3, 4)] == [before.files[at] for at in (1, 3, 4)]
    assert (after.lineage, after.next_offset, after.versions) == (before.lineage, before.next_offset, before.versions)
    for at in (0, 2):
        old, new = before.files[at], after.files[at]
        assert (new.first, new.last, new.version, new.offset) == (old.first, old.last, old.version, old.offset)
    assert place.lake.stream("t", "s").snapshot() == after


# What files say of it


def test_a_file_that_was_erased_from_says_whose_records_when_and_by_whom(place: Place) -> None:
    before = begun(place, 2)
    erase(place, 1, 2, who="ada")
    (first, _) = place.state().files
    said = provenance(place, first.id)
    assert said is not None
    old = before.files[0]
    ((source, count, moment, who),) = said.erased
    assert (source, count, who) == (old.id, 2, "ada")
    assert moment.startswith("2026-01-01T")
    assert said.replaces == ((old.id, 4),)
    assert said.through == ()
    assert (said.id, said.lineage, said.offset) == (first.id, before.lineage, 0)
    assert said.lake_id == before.lake_id


def test_rows_add_up_over_vacuums_and_erasures_in_turn(place: Place) -> None:
    before = begun(place, 3)
    text = messages(place)
    originals = [file.id for file in before.files]
    erase(place, 1, who="a")
    (first, *_) = place.state().files
    vacuum(place)
    (joined,) = place.state().files
    erase(place, 2, 5, 6, who="b")
    (second,) = place.state().files
    after = add(place, 3)
    text += messages(place)[12:]
    vacuum(place)
    (whole,) = place.state().files
    erase(place, 3, 13, who="c")
    (last,) = place.state().files
    check(place, text, 1, 2, 3, 5, 6, 13)
    new = [file.id for file in after.files[1:]]
    assert who_of(place) == [
        (originals[0], 1, "a"),
        (originals[0], 1, "b"),
        (originals[1], 2, "b"),
        (originals[0], 1, "c"),
        (new[0], 1, "c"),
    ]
    said = provenance(place, last.id)
    assert said is not None
    assert said.replaces == tuple((id, 4) for id in (*originals, *new))
    # All files between that a bookmark may name.
    assert set(said.through) == {(file.id, 0) for file in (first, joined, second, whole)}


def test_many_erasures_take_several_members_to_say(place: Place) -> None:
    begun(place, 1)
    text = messages(place)
    for number in range(3):
        erase(place, number, who=f"{number}" * 3000)
    check(place, text, 0, 1, 2)
    assert [who[:1] for _, _, who in who_of(place)] == ["0", "1", "2"]
    # A file that is much larger than its neighbours is not joined with them.
    add(place, 40)
    text += messages(place)[4:]
    vacuum(place)
    assert len(place.state().files) == 1
    erase(place, 6)
    check(place, text, 0, 1, 2, 6)
    assert [who[:1] for _, _, who in who_of(place)] == ["0", "1", "2", WHO[0]]


# Bookmarks


@pytest.mark.parametrize("line", [1, 2, 3, 4], ids=["before it", "at the hole", "behind it", "at the end"])
@pytest.mark.parametrize("then", ["", "joined", "joined and collected"])
def test_a_bookmark_in_an_old_file_leads_on(place: Place, line: int, then: str) -> None:
    before = begun(place)
    text = messages(place)
    old = before.files[2]
    erase(place, 10, 11)
    if then:
        vacuum(place)
    for _ in range(4 if "collected" in then else 0):
        collect(place)
        days(place, 8)
    stream = place.lake.stream("t", "s")
    # Of this lineage, and of one that is no more, so that the file alone leads on.
    for bookmark in (
        Bookmark(lineage=before.lineage, offset=old.offset + line, file=old.id, line=line),
        Bookmark(lineage="another", offset=99, file=old.id, line=line),
    ):
        offset = stream.resume(stream.snapshot(), bookmark)
        assert offset == old.offset + line
        left = [(at, each) for at, each in enumerate(text) if at >= offset and at not in (10, 11)]
        assert read(place.lake, offset) == left


def test_bookmarks_in_files_between_lead_on_too(place: Place) -> None:
    begun(place, 3)
    between = []
    for number, act in enumerate([lambda: erase(place, 5), lambda: vacuum(place), lambda: erase(place, 6)]):
        act()
        file = next(file for file in place.state().files if file.offset <= 5 < file.end)
        between.append((number, file))
    stream = place.lake.stream("t", "s")
    for number, file in between:
        line = 7 - file.offset
        assert stream.resume(stream.snapshot(), Bookmark(lineage="another", offset=99, file=file.id, line=line)) == 7, (
            number
        )


# What is not to be erased from


def test_a_stream_on_its_way_to_another_store_is_refused(place: Place) -> None:
    begun(place)
    loaded = place.loaded()
    place.committed(loaded, Close(successor="log" if place.kind != "log" else "lockfile"))
    before, objects = place.state(), dump(place)
    with pytest.raises(StreamClosedError):
        erase(place, 1)
    assert (place.state(), dump(place)) == (before, objects)


# Damage


@pytest.mark.parametrize("harm", ["gone", "no gzip", "cut", "flipped", "another"])
def test_a_damaged_file_is_a_finding_and_hinders_nothing_else(place: Place, harm: str) -> None:
    before = begun(place)
    hurt = before.files[2]
    stored = place.storage.get(PREFIX + hurt.path)
    other = place.storage.get(PREFIX + before.files[1].path)
    assert stored is not None
    assert other is not None
    body = {
        "no gzip": b"x" * hurt.bytes,
        "cut": stored.body[:-20],
        "flipped": stored.body[:-30] + bytes((stored.body[-30] ^ 1,)) + stored.body[-29:],
        "another": other.body,
    }.get(harm)
    if body is None:
        place.storage.delete(PREFIX + hurt.path)
    else:
        place.storage.put(PREFIX + hurt.path, body)
    done = erase(place, 1, 5, 9, 17)
    assert {finding.key for finding in done.findings} == {PREFIX + hurt.path}
    assert all(finding.problem for finding in done.findings)
    assert len(done.findings) == 1
    state = place.state()
    assert [file.erased for file in state.files] == [1, 1, 0, 0, 1]
    assert state.files[2] == hurt
    # Nothing of what was made in vain is left.
    data = [entry.key for entry in place.storage.list(PREFIX) if entry.key.endswith(layout.SUFFIX)]
    known = {file.path for file in (*state.files, *state.retired)}
    assert {key.removeprefix(PREFIX) for key in data} <= known


def test_a_file_that_says_other_holes_than_it_has_is_a_finding(place: Place) -> None:
    begun(place, 2)
    erase(place, 1)
    (file, _) = place.state().files
    key = PREFIX + file.path
    stored = place.storage.get(key)
    assert stored is not None
    assert b',1,"' in stored.body
    place.storage.put(key, stored.body.replace(b',1,"', b',2,"', 1))
    done = erase(place, 2, 6)
    assert [(finding.kind, finding.key) for finding in done.findings] == [("broken", key)]
    assert [each.erased for each in place.state().files] == [1, 1]
    assert not is_sound(place)


def test_a_line_that_looks_like_a_hole_and_is_none_is_a_message(place: Place) -> None:
    place.born()
    odd = b' {"type":"ERASED"}'
    lines = [record_line("s", {"n": 0, "text": HOLE.decode()}), record_line("s", {"n": 1})]
    build_stream(place.lake, "t", "s", SCHEMA, lines)
    assert odd not in messages(place)
    erase(place, 1)
    check(place, lines, 1)

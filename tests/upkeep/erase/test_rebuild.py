"""A state made anew, or mended, from files of which some have holes and others the records that were there. None of
those comes back, and nothing else is lost."""

from __future__ import annotations

from typing import Any

import pytest

from singerlake.format import layout
from singerlake.format.lines.holes import HOLE
from singerlake.format.state.features import features_of
from singerlake.singer_file import compress_member
from singerlake.upkeep.rebuild.rebuild import rebuild_manifest
from singerlake.upkeep.rebuild.rebuild_lake import RepairOptions, repair_stream
from singerlake.upkeep.rebuild.repair import Repair
from singerlake.upkeep.verify import verify_stream
from tests.lakes import record_line
from tests.stores.stores import Place
from tests.upkeep.erase.erasing import check, erase, place_of, who_of, with_holes
from tests.upkeep.gc.test_stores import collect, days
from tests.upkeep.migrate.moving import Killed
from tests.upkeep.vacuum.test_stores import PREFIX, add, begun, messages, once, vacuum


@pytest.fixture
def place(request: pytest.FixtureRequest) -> Place:
    return place_of("lockfile", request)


def lose(place: Place) -> None:
    """The state is gone; all data files are there."""
    place.storage.delete(layout.manifest_key("t", "s"))


def rebuild(place: Place, **options: Any) -> Repair:
    return repair_stream(place.context(), RepairOptions(**options))


def backwards(place: Place) -> None:
    """Store all data files again in another order, so that nothing rests on when they were stored."""
    found = [entry.key for entry in place.storage.list(PREFIX) if entry.key.endswith(layout.SUFFIX)]
    for key in reversed(found):
        stored = place.storage.get(key)
        assert stored is not None
        place.storage.delete(key)
        place.clock.sleep(1)
        place.storage.put(key, stored.body)


def made_anew(place: Place, text: list[bytes], *gone: int) -> Repair:
    """A rebuild without a state, of all files in whatever order, brings every message once and none that is gone."""
    lose(place)
    backwards(place)
    done = rebuild(place)
    check(place, text, *gone)
    assert [finding for finding in done.findings if finding.problem] == []
    assert not rebuild(place).needed
    return done


def test_a_single_file_that_was_erased_from(place: Place) -> None:
    before = begun(place)
    text = messages(place)
    erase(place, 1)
    after = place.state()
    made_anew(place, text, 1)
    state = place.state()
    assert [file.id for file in state.files] == [file.id for file in after.files]
    assert [(gone.id, gone.by) for gone in state.retired] == [(before.files[0].id, state.files[0].id)]
    assert state.lineage != after.lineage
    assert [(file.records, file.erased) for file in state.files] == [
        (file.records, file.erased) for file in after.files
    ]


def test_what_was_replaced_can_be_collected_after_it(place: Place) -> None:
    begun(place)
    text = messages(place)
    erase(place, 1)
    made_anew(place, text, 1)
    for _ in range(4):
        collect(place)
        days(place, 8)
    made_anew(place, text, 1)
    assert not place.state().retired


def test_a_file_that_was_vacuumed_before(place: Place) -> None:
    begun(place)
    text = messages(place)
    vacuum(place)
    erase(place, 1, 9)
    made_anew(place, text, 1, 9)
    assert len(place.state().files) == 1


def test_files_that_were_vacuumed_after(place: Place) -> None:
    begun(place)
    text = messages(place)
    erase(place, 1, 9)
    vacuum(place)
    made_anew(place, text, 1, 9)
    assert len(place.state().files) == 1


def test_a_file_that_was_erased_from_several_times_with_vacuums_between(place: Place) -> None:
    begun(place, 3)
    text = messages(place)
    erase(place, 1)
    erase(place, 2, 5)
    vacuum(place)
    erase(place, 3, 9)
    add(place, 3)
    text += messages(place)[12:]
    vacuum(place)
    erase(place, 10, 13)
    rows = who_of(place)
    made_anew(place, text, 1, 2, 3, 5, 9, 10, 13)
    assert len(place.state().files) == 1
    assert who_of(place) == rows


def test_a_vacuum_s_output_of_the_old_file_that_was_never_committed(place: Place) -> None:
    begun(place)
    text = messages(place)

    def die() -> None:
        raise Killed

    once(place, "compose", die, done=True)
    with pytest.raises(Killed):
        vacuum(place)
    place.storage.hook = lambda _: None
    erase(place, 1, 9)
    made_anew(place, text, 1, 9)
    # Those with holes and those beside them, not the one file that has them all.
    assert len(place.state().files) == 5


def test_an_erasure_that_was_never_committed_counts(place: Place) -> None:
    """Its file has less than the one that was listed, and nothing says which of the two was."""
    begun(place)
    text = messages(place)

    def die() -> None:
        raise Killed

    once(place, "upload", die, done=True)
    with pytest.raises(Killed):
        erase(place, 1)
    place.storage.hook = lambda _: None
    assert messages(place) == text
    made_anew(place, text, 1)


def test_two_files_of_the_same_erasure(place: Place) -> None:
    begun(place)
    text = messages(place)

    def die() -> None:
        raise Killed

    once(place, "upload", die, done=True)
    with pytest.raises(Killed):
        erase(place, 1)
    place.storage.hook = lambda _: None
    erase(place, 1)
    made_anew(place, text, 1)
    assert len(place.state().files) == 5


def test_a_rebuild_in_memory_brings_nobody_back(place: Place) -> None:
    begun(place)
    text = messages(place)
    erase(place, 1)
    vacuum(place)
    lose(place)
    made = rebuild_manifest(place.storage, place.first()).manifest
    assert (features_of(made), [file.erased for file in made.files]) == (("erased",), [1])
    assert len(text) == made.next_offset


def test_a_state_that_is_discarded(place: Place) -> None:
    begun(place)
    text = messages(place)
    erase(place, 1)
    rebuild(place, discard=True)
    check(place, text, 1)


# A state that can be read


def test_a_repair_leaves_a_state_with_holes_as_it_is(place: Place) -> None:
    begun(place)
    erase(place, 1)
    vacuum(place)
    erase(place, 2)
    before = place.state()
    done = rebuild(place)
    assert not done.needed
    assert done.findings == ()
    assert not rebuild(place, adopt=True).needed
    assert place.state() == before


def test_a_repair_mends_what_a_state_says_of_a_file_with_holes(place: Place) -> None:
    begun(place)
    text = messages(place)
    erase(place, 1)
    before = place.state()
    key = layout.manifest_key("t", "s")
    stored = place.storage.get(key)
    assert stored is not None
    file = before.files[0]
    place.storage.put(key, stored.body.replace(f'"bytes":{file.bytes},'.encode(), b'"bytes":7,', 1))
    done = rebuild(place)
    assert done.difference.mended == (file.id,)
    check(place, text, 1)
    assert place.state().files == before.files


def test_adopting_lists_no_file_whose_messages_are_held_with_holes(place: Place) -> None:
    """Retired files that were forgotten, and were then put back from a backup."""
    before = begun(place)
    text = messages(place)
    old = place.storage.get(PREFIX + before.files[0].path)
    assert old is not None
    erase(place, 1)
    for _ in range(4):
        collect(place)
        days(place, 8)
    assert not place.state().retired
    place.storage.put(PREFIX + before.files[0].path, old.body)
    done = rebuild(place, adopt=True)
    assert not done.needed
    check(place, text, 1)


def test_adopting_lists_no_file_with_holes_of_one_that_is_listed(place: Place) -> None:
    """What an erasure left that was killed before its commit: with a state there, the state says what is erased."""
    begun(place)
    text = messages(place)

    def die() -> None:
        raise Killed

    once(place, "upload", die, done=True)
    with pytest.raises(Killed):
        erase(place, 1)
    place.storage.hook = lambda _: None
    assert not rebuild(place, adopt=True).needed
    check(place, text)
    erase(place, 1)
    assert not rebuild(place, adopt=True).needed
    check(place, text, 1)


def test_adopting_lists_a_file_with_holes_that_nothing_else_holds(place: Place) -> None:
    begun(place, 2)
    text = messages(place)
    erase(place, 1)
    (first, second) = place.state().files
    body = place.storage.get(PREFIX + first.path)
    assert body is not None
    for file in (*place.state().files, *place.state().retired):
        place.storage.delete(PREFIX + file.path)
    lose(place)
    place.born()
    add(place, 1)
    place.storage.put(PREFIX + first.path, body.body)
    assert features_of(place.state()) == ()
    done = rebuild(place, adopt=True)
    assert done.difference.added == (first.id,)
    state = place.state()
    assert (features_of(state), [file.erased for file in state.files]) == (("erased",), [0, 1])
    assert messages(place)[4:] == with_holes(text, 1)[:4]
    assert second.id not in state.by_id


def test_an_older_state_that_was_put_back_is_mended_by_discarding_it(place: Place) -> None:
    begun(place)
    text = messages(place)
    key = layout.manifest_key("t", "s")
    old = place.storage.get(key)
    assert old is not None
    erase(place, 1)
    place.storage.put(key, old.body)
    # Its files are still there, so that it is a sound state with the record in it.
    assert messages(place) == text
    assert erase(place, 1).records == 1
    check(place, text, 1)
    place.storage.put(key, old.body)
    rebuild(place, discard=True)
    check(place, text, 1)


# Damage


@pytest.mark.parametrize("harm", ["gone", "cut", "other holes than it says"])
def test_a_damaged_file_with_holes_is_left_out_and_what_it_was_made_of_stands_for_it(place: Place, harm: str) -> None:
    """As section 9 has it: lost never, though what was erased is there again until it is erased again."""
    begun(place)
    text = messages(place)
    erase(place, 1)
    (file, *_) = place.state().files
    key = PREFIX + file.path
    stored = place.storage.get(key)
    assert stored is not None
    if harm == "gone":
        place.storage.delete(key)
    elif harm == "cut":
        place.storage.put(key, stored.body[:-20])
    else:
        assert b',1,"' in stored.body
        place.storage.put(key, stored.body.replace(b',1,"', b',2,"', 1))
    problems = [finding for finding in verify_stream(place.storage, "t", "s", place.state).findings if finding.problem]
    assert {finding.key for finding in problems} == {key}
    # With the state there, its offsets are its own: it stays listed, and is a finding.
    kept = rebuild(place)
    assert key in {finding.key for finding in kept.findings if finding.problem}
    assert not kept.needed
    lose(place)
    done = rebuild(place)
    assert [finding.kind for finding in done.findings] == ([] if harm == "gone" else ["broken"])
    said = {"cut": "1 of its messages were erased; they may be back", "other holes than it says": "2 of its messages"}
    assert harm == "gone" or said[harm] in done.findings[0].message
    assert messages(place) == text
    assert features_of(place.state()) == ()
    erase(place, 1)
    check(place, text, 1)


def test_a_damaged_file_with_holes_is_kept_out_where_a_joined_one_holds_them(place: Place) -> None:
    begun(place)
    text = messages(place)
    erase(place, 1)
    (file, *_) = place.state().files
    vacuum(place)
    place.storage.put(PREFIX + file.path, b"x")
    lose(place)
    assert [finding.kind for finding in rebuild(place).findings] == ["broken"]
    check(place, text, 1)


def test_a_copy_of_a_file_with_holes_adds_nothing(place: Place) -> None:
    begun(place)
    text = messages(place)
    erase(place, 1)
    (file, *_) = place.state().files
    stored = place.storage.get(PREFIX + file.path)
    assert stored is not None
    place.storage.put(PREFIX + file.path.replace("/", "/copy-of-"), stored.body)
    lose(place)
    assert [finding.kind for finding in rebuild(place).findings] == ["duplicate"]
    check(place, text, 1)


def test_a_file_with_holes_that_is_known_by_its_content_is_vacuumed_and_erased_from(place: Place) -> None:
    """Two files say the same id, and have other messages behind it."""
    begun(place, 3)
    erase(place, 1)
    (first, *_) = place.state().files
    stored = place.storage.get(PREFIX + first.path)
    assert stored is not None
    others = [HOLE, *(record_line("s", {"n": n}) + b"\n" for n in (70, 71, 72))]
    front = stored.body[: first.members[0][0]]
    place.storage.put(PREFIX + first.path.replace("/", "/another-"), front + compress_member(b"".join(others), 1))
    lose(place)
    assert [finding.kind for finding in rebuild(place).findings] == ["clash"]
    text = messages(place)
    assert text.count(HOLE[:-1]) == 2
    done = erase(place, 70)
    assert (done.records, done.findings) == (1, ())
    assert [finding for finding in vacuum(place).findings if finding.problem] == []
    left = [HOLE[:-1] if line.endswith(b'"n": 70}}') else line for line in text]
    assert messages(place) == left
    lose(place)
    assert [finding.kind for finding in rebuild(place).findings if finding.problem] == ["clash"]
    assert sorted(messages(place)) == sorted(left)

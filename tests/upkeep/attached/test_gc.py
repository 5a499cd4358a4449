"""Collecting attached files at every manifest store: orphans too, and only what no listed file has."""

from __future__ import annotations

import msgspec
import pytest

from singerlake.errors import StorageUnavailableError
from singerlake.format.state.additions import Conflict
from singerlake.format.state.transactions import CollectFiles, Rebase
from singerlake.upkeep.gc.apply import collect_now
from tests.storage.memory import MemoryStorage, Step
from tests.stores.stores import ON_THE_LAKE, Place
from tests.upkeep.attached.photos import THREE, add, begun, check, digest, key, retired, stored
from tests.upkeep.attached.test_erase import again
from tests.upkeep.erase.erasing import erase
from tests.upkeep.gc.test_stores import collect, days, dump, orphan
from tests.upkeep.vacuum.test_stores import PREFIX

pytestmark = pytest.mark.in_turn("place")


def upload(place: Place, name: str) -> None:
    """A photo that a writer stored and never committed."""
    place.storage.put(key(name), name.encode())


def test_an_orphan_is_retired_only_where_that_is_asked_for_and_it_is_old(place: Place) -> None:
    begun(place)
    upload(place, "f")
    add(place, [["e"]])
    young = collect(place, orphans=True)
    assert (young.plan.young.files, young.plan.orphans) == (1, ())
    days(place, 8)
    upload(place, "g")
    assert [entry.key for entry in collect(place).plan.orphans] == [key("f")]
    assert retired(place) == {}
    before = dump(place)
    told = collect(place, orphans=True, delete=False)
    assert dump(place) == before
    done = collect(place, orphans=True)
    for each in (told, done):
        assert (each.retired.files, each.retired_attached.files, each.retired_attached.bytes) == (1, 1, 1)
    assert retired(place) == {"f": "retired"}
    collect(place)
    assert retired(place) == {"f": "shown"}
    days(place, 7.1)
    done = collect(place, orphans=True)
    # The other one is newer than every listed file by now.
    assert (done.deleted_attached.files, done.retired.files) == (1, 0)
    assert stored(place) == ["a", "b", "c", "d", "e", "g"]
    check(place, [*THREE, ["e"]])


def test_an_orphan_that_a_writer_uses_at_last_is_kept(place: Place) -> None:
    begun(place)
    upload(place, "f")
    add(place, [["e"]])
    days(place, 8)
    collect(place, orphans=True)
    collect(place)
    assert retired(place) == {"f": "shown"}
    again(place, "f")
    days(place, 8)
    assert collect(place).deleted_attached.files == 0
    check(place, [*THREE, ["e"], ["f"]])
    assert retired(place) == {}


def test_a_state_that_was_put_back_keeps_what_is_newer_than_it(place: Place) -> None:
    before = begun(place)
    days(place, 1)
    add(place, [["e"]])
    base = place.loaded()
    place.committed(base, Rebase(manifest=msgspec.structs.replace(before, lineage="restored")))
    days(place, 30)
    done = collect(place, orphans=True)
    assert (done.retired.files, done.plan.orphans) == (0, ())
    assert stored(place) == ["a", "b", "c", "d", "e"]


def test_while_a_listed_photo_is_missing_no_orphan_is_retired(place: Place) -> None:
    begun(place)
    upload(place, "f")
    add(place, [["e"]])
    place.storage.delete(key("b"))
    days(place, 8)
    done = collect(place, orphans=True)
    (finding,) = done.findings
    assert (finding.kind, finding.key, finding.problem) == ("missing", key("b"), True)
    # A state made anew from the files would list it again.
    assert finding.message == "is attached but missing; no orphan is retired; restore it from a backup"
    assert done.retired.files == 0


def test_a_photo_older_than_the_lineage_is_an_orphan_where_no_data_file_is_left_with_it(place: Place) -> None:
    before = begun(place)
    upload(place, "f")
    left = orphan(place)
    days(place, 1)
    base = place.loaded()
    created = "2026-01-02T00:00:00Z"
    place.committed(base, Rebase(manifest=msgspec.structs.replace(before, lineage="new", created=created)))
    days(place, 8)
    add(place, [["e"]])
    done = collect(place, orphans=True)
    assert (done.retired.files, done.plan.left.files, done.plan.left_attached.files) == (0, 2, 1)
    place.storage.delete(left)
    done = collect(place, orphans=True)
    assert (done.retired_attached.files, done.plan.left.files) == (1, 0)
    assert retired(place) == {"f": "retired"}


def test_what_is_listed_again_between_two_steps_is_kept(place: Place) -> None:
    begun(place)
    erase(place, 1)
    collect(place)
    days(place, 8)
    storage = place.storage
    assert isinstance(storage, MemoryStorage)
    met: list[Step] = []

    def hook(step: Step) -> None:
        if not met and (step.operation, step.key) == ("list", PREFIX):
            met.append(step)
            again(place, "b")

    storage.hook = hook
    done = collect(place)
    storage.hook = lambda _: None
    assert met
    assert (done.deleted.files, done.deleted_attached.files) == (1, 0)
    check(place, [*THREE, ["b"]], 1)


def test_what_is_listed_and_retired_again_between_two_steps_waits_anew(place: Place) -> None:
    """Readers know it of the state in between, and another collector has just seen that it is retired."""
    begun(place)
    erase(place, 1)
    collect(place)
    days(place, 8)
    storage = place.storage
    assert isinstance(storage, MemoryStorage)
    met: list[Step] = []

    def hook(step: Step) -> None:
        if not met and (step.operation, step.key) == ("list", PREFIX):
            met.append(step)
            again(place, "b")
            erase(place, 6)
            collect(place, only={digest("b")})

    storage.hook = hook
    done = collect(place)
    storage.hook = lambda _: None
    assert met
    assert "b" in stored(place)
    assert retired(place) == {"b": "shown"}
    assert done.deleted_attached.files == 0
    days(place, 6.9)
    assert collect(place).deleted_attached.files == 0
    days(place, 0.2)
    assert collect(place).deleted_attached.files == 1


def agreed(place: Place) -> MemoryStorage:
    """It is agreed that ``b`` is deleted, and the storage failed before it was."""
    begun(place)
    erase(place, 1)
    collect(place)
    days(place, 8)
    storage = place.storage
    assert isinstance(storage, MemoryStorage)

    def fail(step: Step) -> None:
        if step.operation == "delete" and step.key.endswith((".singer.gz", digest("b"))):
            raise StorageUnavailableError("gone")

    storage.hook = fail
    with pytest.raises(StorageUnavailableError):
        collect(place)
    storage.hook = lambda _: None
    assert (retired(place)["b"], "b" in stored(place)) == ("deleted", True)
    return storage


def test_what_was_to_be_deleted_long_ago_begins_anew(place: Place) -> None:
    agreed(place)
    days(place, 3.6)
    done = collect(place)
    assert (done.deleted_attached.files, done.plan.waiting_attached.files) == (0, 1)
    assert (retired(place)["b"], "b" in stored(place)) == ("retired", True)
    collect(place)
    days(place, 7.1)
    assert collect(place).deleted_attached.files == 1
    days(place, 7.1)
    collect(place)
    assert (retired(place), stored(place)) == ({}, ["a", "c", "d"])


def test_what_was_to_be_deleted_long_ago_is_deleted_at_once_where_nobody_is_said_to_be_at_work(place: Place) -> None:
    agreed(place)
    days(place, 30)
    assert collect_now(place.context(), {digest("b")}).deleted_attached.files == 1
    assert stored(place) == ["a", "c", "d"]


@pytest.mark.in_turn("kind")
@pytest.mark.parametrize("kind", ON_THE_LAKE)
def test_what_is_used_again_while_it_begins_anew_is_kept(kind: str) -> None:
    place = Place(kind)
    storage = agreed(place)
    days(place, 8)
    met: list[Step] = []

    def hook(step: Step) -> None:
        storage.hook = lambda _: None
        if not met and step.done and "b" not in retired(place):
            met.append(step)
            again(place, "b")
        storage.hook = hook

    storage.hook = hook
    collect(place)
    storage.hook = lambda _: None
    assert met
    assert "b" not in retired(place)
    days(place, 30)
    collect(place, orphans=True)
    assert "b" in stored(place)


@pytest.mark.parametrize("after", [3, 8])
def test_a_deletion_that_takes_long_meets_no_photo_that_is_used_again(place: Place, after: float) -> None:
    """Others delete the object meanwhile, forget it where they may, and bring the same bytes."""
    storage = agreed(place)
    days(place, after)
    met: list[Step] = []

    def hook(step: Step) -> None:
        if not met and step.operation == "delete" and not step.done and step.key == key("b"):
            met.append(step)
            days(place, 3.4)
            collect(place)
            collect(place)
            add(place, [["b"]])

    storage.hook = hook
    collect(place)
    storage.hook = lambda _: None
    if not met:
        add(place, [["b"]])
    check(place, [*THREE, ["b"]], 1)


def test_a_writer_that_comes_after_the_agreement_is_refused_and_stores_another_copy(place: Place) -> None:
    agreed(place)
    with pytest.raises(Exception, match="being deleted"):
        again(place, "b")
    add(place, [["b"]])
    done = collect(place)
    assert (len(done.plan.again), done.deleted_attached.files) == (2, 1)
    assert stored(place) == ["a", "b'", "c", "d"]
    check(place, [*THREE, ["b"]], 1)


def test_the_last_step_is_no_step_of_what_is_listed(place: Place) -> None:
    begun(place)
    base = place.loaded()
    after = place.committed(base, CollectFiles(shown=(digest("a"),), deleted=(digest("a"),)))
    assert after.manifest.retired == []
    done = collect_now(place.context(), {digest("a"), digest("b")})
    assert (done.deleted.files, stored(place)) == (0, ["a", "b", "c", "d"])
    assert not isinstance(place.commit(after, CollectFiles(forgotten=(digest("a"),))), Conflict)

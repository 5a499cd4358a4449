"""Verifying attached files at every manifest store: each is read once, whatever records have it."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import msgspec
import pytest

from singerlake.format.exact_json import encode
from singerlake.format.state.transactions import Rebase
from singerlake.upkeep.checks import AttachedTask, attached_objects
from singerlake.upkeep.verify import Sample, open_journal
from tests.storage.memory import Step
from tests.stores.stores import Place
from tests.upkeep.attached.photos import add, begun, digest, key, verified
from tests.upkeep.erase.erasing import erase
from tests.upkeep.vacuum.test_stores import PREFIX, vacuum

pytestmark = pytest.mark.in_turn("place")


def found(place: Place, **options: Any) -> dict[tuple[str, str], str]:
    return {(each.kind, each.key): each.message for each in verified(place, **options).findings}


def test_a_sound_stream_counts_each_object_once(place: Place) -> None:
    begun(place)
    vacuum(place)
    seen: list[str] = []
    place.storage.hook = lambda step: seen.append(step.key) if is_read(step) else None
    done = verified(place)
    assert (done.findings, done.attached.files, done.attached.bytes) == ((), 4, 4)
    assert sorted(seen[-4:]) == sorted(key(name) for name in "abcd")
    assert seen.count(key("a")) == 1


def test_a_photo_that_is_gone_or_has_other_bytes_is_found(place: Place) -> None:
    begun(place)
    place.storage.delete(key("a"))
    place.storage.put(key("b"), b"bb")
    place.storage.put(key("c"), b"x")
    place.storage.put(key("d"), b"")
    assert found(place) == {
        ("missing", key("a")): "is attached to a record but missing; restore it from a backup",
        ("differs", key("b")): "bytes 2, attached 1; restore it from a backup",
        ("differs", key("c")): "its bytes are not those that were attached; restore it from a backup",
        ("differs", key("d")): "bytes 0, attached 1; restore it from a backup",
    }


def test_rows_that_are_not_the_file_s_are_found(place: Place) -> None:
    before = begun(place)
    base = place.loaded()
    wrong = [msgspec.structs.replace(file, attached=file.attached[:1]) for file in before.files]
    place.committed(base, Rebase(manifest=msgspec.structs.replace(before, files=wrong)))
    messages = [message for (kind, _), message in found(place).items() if kind == "differs"]
    assert messages == ["the attached files that it tells of are not those of the manifest"] * 3


def test_of_a_sample_only_presence_and_size_of_the_others_are_checked(place: Place) -> None:
    before = begun(place)
    sample = Sample("x", files=1)
    (drawn,) = sample.of(before.files)
    own = {row.sha256 for row in drawn.attached}
    other = next(name for name in "abcd" if digest(name) not in own)
    mine = next(name for name in "abcd" if digest(name) in own)
    place.storage.put(key(other), b"x")
    assert found(place, sample=sample) == {}
    place.storage.put(key(mine), b"x")
    assert set(found(place, sample=sample)) == {("differs", key(mine))}
    place.storage.put(key(other), b"xx")
    assert set(found(place, sample=sample)) == {("differs", key(mine)), ("differs", key(other))}
    place.storage.delete(key(other))
    place.storage.delete(key(mine))
    assert set(found(place, sample=sample)) == {("missing", key(mine)), ("missing", key(other))}
    done = verified(place, sample=sample)
    assert (done.attached.files, done.files) == (4, 3)


def test_what_a_journal_knows_is_not_read_again(place: Place, tmp_path: Path) -> None:
    begun(place)

    def run() -> tuple[dict[tuple[str, str], str], list[str]]:
        read: list[str] = []
        place.storage.hook = lambda step: read.append(step.key) if is_read(step) else None
        with open_journal(tmp_path / "journal", "lake") as journal:
            told = found(place, journal=journal)
        place.storage.hook = lambda _: None
        return told, read

    first = run()
    assert (first[0], len(first[1])) == ({}, 7)
    assert run() == ({}, [])
    add(place, [["e"]])
    assert (told := run())[0] == {}
    assert key("e") in told[1]
    assert len(told[1]) == 2
    place.clock.sleep(60)
    place.storage.put(key("b"), b"x")
    for _ in range(2):
        told = run()
        assert set(told[0]) == {("differs", key("b"))}
        assert told[1] == [key("b")]
    place.storage.delete(key("b"))
    assert set(run()[0]) == {("missing", key("b"))}


def is_read(step: Step) -> bool:
    return not step.done and step.operation == "open" and ("/_files/" in step.key or step.key.endswith(".gz"))


def test_a_writer_that_commits_meanwhile_leaves_nothing_unlisted(place: Place) -> None:
    begun(place)
    met: list[Step] = []

    def hook(step: Step) -> None:
        if not met and step.operation == "list":
            met.append(step)
            add(place, [["e"]])

    place.storage.hook = hook
    assert found(place) == {}
    assert met


def test_a_photo_that_a_collector_deletes_meanwhile_is_not_missing(place: Place) -> None:
    begun(place)
    met: list[Step] = []

    def hook(step: Step) -> None:
        if not met and step.operation == "open" and "/_files/" in step.key:
            met.append(step)
            erase(place, 1)
            place.storage.delete(key("b"))

    place.storage.hook = hook
    assert {kind for kind, _ in found(place)} <= {"missing"}
    assert met
    assert ("missing", key("b")) not in found(place)


def test_a_source_that_is_no_unicode_stops_no_journal(place: Place, tmp_path: Path) -> None:
    before = begun(place, [["a"]])
    base = place.loaded()
    (file,) = before.files
    odd = msgspec.structs.replace(file.attached[0], source="\ud800")
    wrong = [msgspec.structs.replace(file, attached=(odd,))]
    place.committed(base, Rebase(manifest=msgspec.structs.replace(before, files=wrong)))
    assert b"\\ud800" in encode(place.state())
    with open_journal(tmp_path / "journal", "lake") as journal:
        assert [kind for kind, _ in found(place, journal=journal)] == ["differs"]


def test_the_task_can_travel() -> None:
    place = Place("lockfile")
    begun(place)
    place.storage.put(key("c"), b"x")
    items = attached_objects(place.state().files).values()
    task, there = pickle.loads(pickle.dumps((AttachedTask(PREFIX), list(items))))
    findings = [each.key for item in there for each in task(place.storage, item)]
    assert findings == [key("c")]
    assert list(task.together(place.storage, there)) == [task(place.storage, item) for item in there]

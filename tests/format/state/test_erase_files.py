"""Erasing in the fold: holes take the place of records, every message keeps its offset; the state has the feature."""

from __future__ import annotations

import msgspec
import pytest

from singerlake.format.state.features import features_of
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import AddFiles, CollectFiles, EraseFiles, Rebase, ReplaceFiles
from tests.format.state.test_fold import add, born, check_log, done, new_file, refused, with_holes


def begun() -> Manifest:
    """Files of three, two and four records."""
    return done(born(), add(new_file("a", 3), new_file("b", 2), new_file("c", 4)))


def erased() -> Manifest:
    """The same with a hole in the second one."""
    return done(begun(), EraseFiles(old=("b",), new=(with_holes(new_file("b1", 2), 1),)))


def test_a_file_with_holes_takes_the_place_of_the_one_that_it_was_made_of() -> None:
    before, after = begun(), erased()
    assert [(file.id, file.offset, file.messages) for file in after.files] == [("a", 0, 3), ("b1", 3, 2), ("c", 5, 4)]
    assert [(file.records, file.erased) for file in after.files] == [(3, 0), (1, 1), (4, 0)]
    assert [(gone.id, gone.by) for gone in after.retired] == [("b", "b1")]
    assert (after.next_offset, after.lineage, after.versions) == (before.next_offset, before.lineage, before.versions)
    check_log(after)


def test_several_files_may_be_written_again_as_one() -> None:
    after = done(begun(), EraseFiles(old=("a", "b"), new=(with_holes(new_file("ab", 5), 2),)))
    assert [(file.id, file.offset, file.erased) for file in after.files] == [("ab", 0, 2), ("c", 5, 0)]
    assert [(gone.id, gone.by) for gone in after.retired] == [("a", "ab"), ("b", "ab")]


def test_the_state_is_of_format_2_from_then_on() -> None:
    assert features_of(begun()) == ()
    manifest = erased()
    assert features_of(manifest) == ("erased",)
    holes = with_holes(new_file("all", 9), 1)
    for change in (
        add(new_file("d")),
        ReplaceFiles(old=("a", "b1", "c"), new=(holes,)),
        CollectFiles(shown=("b",)),
    ):
        manifest = done(manifest, change)
        assert features_of(manifest) == ("erased",)
        assert from_json(to_json(manifest), key="k") == manifest


def test_a_file_with_holes_that_is_added_makes_the_state_one_of_format_2() -> None:
    after = done(begun(), add(with_holes(new_file("d"), 1)))
    assert (features_of(after), after.files[-1].erased) == (("erased",), 1)


def test_a_rebase_onto_a_state_without_holes_takes_the_format_back() -> None:
    anew = msgspec.structs.replace(begun(), lineage="other")
    after = done(erased(), Rebase(manifest=anew))
    assert (features_of(after), after.lineage) == ((), "other")
    assert features_of(done(after, add(new_file("d")))) == ()


def test_a_rebase_onto_a_state_with_holes_brings_its_format() -> None:
    anew = msgspec.structs.replace(erased(), lineage="other")
    assert features_of(done(begun(), Rebase(manifest=anew))) == ("erased",)


def test_erasing_twice_changes_nothing_more() -> None:
    manifest = erased()
    change = EraseFiles(old=("b",), new=(with_holes(new_file("b1", 2), 1),))
    again = done(manifest, change)
    assert (again.files, again.retired, features_of(again)) == (manifest.files, manifest.retired, features_of(manifest))
    joined = done(manifest, ReplaceFiles(old=("b1", "c"), new=(with_holes(new_file("bc", 6), 1),)))
    again = done(joined, change)
    assert (again.files, again.retired) == (joined.files, joined.retired)


def test_what_was_written_again_is_skipped_when_its_writer_adds_it_late() -> None:
    manifest = erased()
    assert done(manifest, add(new_file("b", 2))).files == manifest.files


def test_more_can_be_erased_of_a_file_and_nothing_comes_back() -> None:
    manifest = done(erased(), EraseFiles(old=("b1",), new=(with_holes(new_file("b2", 2), 2),)))
    assert [(file.id, file.records, file.erased) for file in manifest.files][1] == ("b2", 0, 2)
    assert [(gone.id, gone.by) for gone in manifest.retired] == [("b", "b1"), ("b1", "b2")]


def test_what_is_no_record_is_erased_with_its_run_and_never_becomes_one() -> None:
    """A file of an ACTIVATE_VERSION and two records."""
    mixed = msgspec.structs.replace(new_file("m", 3), records=2)
    manifest = done(born(), add(mixed))
    after = done(manifest, EraseFiles(old=("m",), new=(msgspec.structs.replace(mixed, id="n", records=0, erased=2),)))
    assert (after.files[0].records, after.files[0].erased) == (0, 2)
    run = msgspec.structs.replace(mixed, id="n", records=0, erased=3)
    assert done(manifest, EraseFiles(old=("m",), new=(run,))).files[0].erased == 3
    for records, erased in ((1, 3), (3, 0), (0, 1)):
        over = msgspec.structs.replace(mixed, id="n", records=records, erased=erased)
        assert "a record or a hole for each one" in refused(manifest, EraseFiles(old=("m",), new=(over,)))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (EraseFiles(old=("a", "x"), new=(with_holes(new_file("n", 5), 1),)), "not listed: x"),
        (EraseFiles(old=("b",), new=(with_holes(new_file("n", 2), 2),)), "not listed: b"),
        (EraseFiles(old=(), new=(with_holes(new_file("n", 1), 1),)), "not listed"),
        (EraseFiles(old=("a",), new=()), "not listed"),
        (EraseFiles(old=("a", "c"), new=(with_holes(new_file("n", 7), 1),)), "not contiguous"),
        (EraseFiles(old=("b1", "a"), new=(with_holes(new_file("n", 5), 2),)), "not contiguous"),
        (EraseFiles(old=("a",), new=(with_holes(new_file("n", 2), 1),)), "same number of messages"),
        (EraseFiles(old=("a",), new=(with_holes(new_file("n", 3, 1), 1),)), "not of one version"),
        (
            EraseFiles(old=("a",), new=(msgspec.structs.replace(new_file("n", 3), erased=1),)),
            "a record or a hole for each one",
        ),
        (
            EraseFiles(old=("a",), new=(msgspec.structs.replace(new_file("n", 3), records=2),)),
            "a record or a hole for each one",
        ),
        (EraseFiles(old=("a",), new=(with_holes(new_file("c", 2), 1), new_file("n", 1))), "listed already"),
        (EraseFiles(old=("a", "a"), new=(with_holes(new_file("n", 6), 1),)), "named twice"),
        (EraseFiles(old=("a",), new=(with_holes(new_file("a", 3), 1),)), "named twice"),
        (ReplaceFiles(old=("b1",), new=(new_file("n", 2),)), "same number of erased messages"),
        (ReplaceFiles(old=("a", "b1"), new=(new_file("n", 5),)), "same number of erased messages"),
        (ReplaceFiles(old=("a",), new=(with_holes(new_file("n", 3), 1),)), "same number of erased messages"),
        (ReplaceFiles(old=("b1",), new=(with_holes(new_file("n", 2), 2),)), "same number of erased messages"),
    ],
)
def test_a_change_that_does_not_fit_is_a_conflict(change: ReplaceFiles, reason: str) -> None:
    assert reason in refused(erased(), change)


def test_holes_are_never_given_back() -> None:
    back = EraseFiles(old=("b1",), new=(new_file("n", 2),))
    assert "fewer erased messages" in refused(erased(), back)


def test_an_orphan_s_id_is_not_given_to_a_file_with_holes() -> None:
    manifest = done(begun(), AddFiles(files=(), schemas={}))
    gone = msgspec.structs.replace(erased().retired[0], id="o", by=None)
    manifest = msgspec.structs.replace(manifest, retired=[gone])
    assert "orphan" in refused(manifest, EraseFiles(old=("a",), new=(with_holes(new_file("o", 3), 1),)))

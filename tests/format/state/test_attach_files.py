"""Attached files in the fold: an object is listed as long as a listed file has a row of it, and retired after that."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from singerlake.format.state.attached import Attached
from singerlake.format.state.attached_objects import objects_in
from singerlake.format.state.features import features_of
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import (
    AddFiles,
    AttachFiles,
    CollectFiles,
    EraseFiles,
    ExpireFiles,
    Rebase,
    ReplaceFiles,
    RetireFiles,
    addition,
)
from singerlake.upkeep.checks import check_state
from tests.format.state.test_fold import add, born, check_log, done, new_file, refused, with_holes

NAMES = [f"{number:x}" * 64 for number in range(1, 8)]
A, B, C = NAMES[:3]


def row(message: int, sha256: str | None, copy: int = 1) -> Attached:
    if sha256 is None:
        return Attached(message, "photo", f"{message}.jpg", None, None, None, 1)
    return Attached(message, "photo", f"{message}.jpg", sha256, 5, "image/jpeg", copy)


def with_rows(file: NewFile, *rows: Attached) -> NewFile:
    return msgspec.structs.replace(file, attached=rows)


def attach(*files: NewFile) -> AddFiles:
    plain = add(*files)
    return addition(plain.files, plain.schemas)


def begun() -> Manifest:
    """a has A and B, b has B, c has nothing."""
    return done(
        born(),
        attach(
            with_rows(new_file("a", 3), row(0, A), row(2, B)),
            with_rows(new_file("b", 2), row(1, B)),
            new_file("c", 4),
        ),
    )


def erased(manifest: Manifest, old: str, new: str, holes: int, *rows: Attached) -> Manifest:
    return done(manifest, erasing(manifest, old, new, holes, *rows))


def erasing(manifest: Manifest, old: str, new: str, holes: int, *rows: Attached) -> EraseFiles:
    made = with_holes(new_file(new, manifest.by_id[old].messages), holes)
    return EraseFiles(old=(old,), new=(with_rows(made, *rows),))


def attached(manifest: Manifest) -> dict[str, str]:
    """The retired objects, with how far their collection is."""
    steps = {gone.id: "deleted" if gone.deleted else "shown" if gone.shown else "" for gone in manifest.retired}
    return {id: step for id, step in steps.items() if len(id) >= 64}


def collected(manifest: Manifest, *ids: str, deleted: bool = True) -> Manifest:
    manifest = done(manifest, CollectFiles(shown=ids))
    return done(manifest, CollectFiles(deleted=ids)) if deleted else manifest


def test_a_file_with_rows_is_added_by_a_change_that_older_versions_do_not_know() -> None:
    plain = add(new_file("c"))
    assert type(addition(plain.files, plain.schemas)) is AddFiles
    assert type(addition((with_rows(new_file("c"), row(0, A)),), plain.schemas)) is AttachFiles
    kinds = AddFiles | ReplaceFiles | EraseFiles | ExpireFiles | RetireFiles | CollectFiles | Rebase
    with pytest.raises(msgspec.ValidationError, match="attach_files"):
        msgspec.json.decode(msgspec.json.encode(attach(with_rows(new_file("c"), row(0, A)))), type=kinds)


def test_offsets_are_given_out_as_to_any_file_and_the_state_has_the_feature() -> None:
    manifest = begun()
    assert [(file.id, file.offset, len(file.attached)) for file in manifest.files] == [
        ("a", 0, 2),
        ("b", 3, 1),
        ("c", 5, 0),
    ]
    assert (features_of(manifest), manifest.retired) == (("attached",), [])
    check_log(manifest)
    assert check_state(manifest, "k") == ()


def test_a_file_that_could_not_be_read_is_a_row_of_no_object() -> None:
    manifest = done(born(), attach(with_rows(new_file("a", 3), row(0, None))))
    assert (features_of(manifest), objects_in(manifest.files)) == (("attached",), {})
    assert attached(erased(manifest, "a", "n", 1)) == {}


def test_the_state_has_the_feature_until_the_last_object_is_forgotten() -> None:
    manifest = done(begun(), add(new_file("d")))
    assert features_of(manifest) == ("attached",)
    objects = tuple(sorted({A, B}))
    for change in (
        ExpireFiles(before=9, lineage="l"),
        CollectFiles(shown=objects),
        CollectFiles(deleted=objects),
        CollectFiles(forgotten=objects[:1]),
    ):
        manifest = done(manifest, change)
        assert features_of(manifest) == ("attached", "expired")
    assert features_of(done(manifest, CollectFiles(forgotten=objects[1:]))) == ("expired",)
    assert features_of(done(manifest, Rebase(manifest=msgspec.structs.replace(born(), lineage="m")))) == ()
    anew = msgspec.structs.replace(begun(), lineage="m")
    assert features_of(done(born(), Rebase(manifest=anew))) == ("attached",)


def test_a_file_that_is_listed_already_is_skipped_with_its_rows() -> None:
    manifest = begun()
    again = attach(with_rows(new_file("a", 3), row(0, A), row(2, B)), with_rows(new_file("d", 1), row(0, C)))
    after = done(manifest, again)
    assert [file.id for file in after.files] == ["a", "b", "c", "d"]
    assert set(objects_in(after.files)) == {A, B, C}


def test_an_object_that_a_record_shares_stays_listed_and_the_last_record_takes_it_along() -> None:
    once = erased(begun(), "a", "a1", 3)
    assert attached(once) == {A: ""}
    (gone,) = [file for file in once.retired if file.id == A]
    assert (gone.path, gone.by, gone.since) == (f"_files/11/{A}", None, "2026-02")
    twice = erased(once, "b", "b1", 2)
    assert attached(twice) == {A: "", B: ""}
    check_log(twice)


def test_two_rows_of_one_object_in_one_file_go_one_after_the_other() -> None:
    manifest = done(born(), attach(with_rows(new_file("a", 3), row(0, A), row(1, A), row(1, A))))
    once = erased(manifest, "a", "a1", 1, row(1, A), row(1, A))
    assert attached(once) == {}
    assert attached(erased(once, "a1", "a2", 2)) == {A: ""}


def test_rows_may_go_without_a_record_but_none_may_come() -> None:
    """A row of an erased record that an earlier version left goes like that."""
    manifest = begun()
    assert attached(erased(manifest, "a", "a1", 0, row(2, B))) == {A: ""}
    for rows in (
        [row(0, A), row(2, B), row(2, C)],
        [row(1, A)],
        [row(2, B), row(0, A)],
        [row(0, A), row(0, A), row(2, B)],
        [row(0, A, 2)],
        [row(0, None)],
    ):
        assert "attached files that the files to replace do not have" in refused(
            manifest, erasing(manifest, "a", "n", 1, *rows)
        )


def test_rows_of_joined_files_count_from_the_first_message_of_them_all() -> None:
    joined = with_rows(new_file("abc", 9), row(0, A), row(2, B), msgspec.structs.replace(row(4, B), source="1.jpg"))
    after = done(begun(), ReplaceFiles(old=("a", "b", "c"), new=(joined,)))
    assert (attached(after), features_of(after)) == ({}, ("attached",))
    assert [gone.id for gone in after.retired] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [row(0, A), row(2, B)],
        [row(0, A), row(2, B), row(3, B)],
        [row(0, A), row(2, B), row(1, B)],
        [row(0, A), row(2, B), msgspec.structs.replace(row(4, B, 2), source="1.jpg")],
        [row(0, A), row(2, B), msgspec.structs.replace(row(4, B), source="1.jpg"), row(8, C)],
    ],
)
def test_a_join_with_other_rows_is_a_conflict(rows: Sequence[Attached]) -> None:
    change = ReplaceFiles(old=("a", "b", "c"), new=(with_rows(new_file("abc", 9), *rows),))
    assert "same attached files" in refused(begun(), change)


@pytest.mark.parametrize(("before", "gone"), [(2, set()), (3, {A}), (5, {A, B}), (9, {A, B})])
def test_what_expired_takes_along_what_no_later_file_has(before: int, gone: set[str]) -> None:
    after = done(begun(), ExpireFiles(before=before, lineage="l"))
    assert set(attached(after)) == gone
    assert set(objects_in(after.files)) == {A, B} - gone
    check_log(after)


# Listed again


def test_a_retired_object_is_listed_again_by_the_next_file_that_has_it() -> None:
    for shown in (False, True):
        gone = erased(begun(), "a", "a1", 3)
        if shown:
            gone = collected(gone, A, "a", deleted=False)
        after = done(gone, attach(with_rows(new_file("d", 1), row(0, A))))
        assert attached(after) == {}
        assert [file.id for file in after.retired] == ["a"]
        assert [file.id for file in gone.retired] == ["a", A]
        later = erased(after, "d", "d1", 1)
        assert attached(later) == {A: ""}
        check_log(later)


def test_an_object_whose_deletion_is_agreed_on_is_never_listed_again() -> None:
    gone = collected(erased(begun(), "a", "a1", 3), A)
    change = attach(new_file("c2"), with_rows(new_file("d", 1), row(0, B), row(0, A)))
    assert refused(gone, change) == (f"attached files are being deleted: {A}; run again, which stores them anew")
    other = done(gone, attach(with_rows(new_file("d", 1), row(0, A, 2))))
    assert attached(other) == {A: "deleted"}
    assert objects_in(other.files)[f"{A}.2"] == f"_files/11/{A}.2"
    forgotten = done(other, CollectFiles(forgotten=(A,)))
    assert set(objects_in(done(forgotten, attach(with_rows(new_file("e", 1), row(0, A)))).files)) == {A, f"{A}.2", B}


def test_a_file_that_is_skipped_asks_nothing_of_its_objects() -> None:
    """Its writer got no answer, and its file was erased from and collected since."""
    gone = collected(erased(begun(), "a", "a1", 3), A)
    again = attach(with_rows(new_file("a", 3), row(0, A), row(2, B)))
    assert done(gone, again).files == gone.files
    assert attached(done(gone, again)) == {A: "deleted"}


def test_a_rebase_of_the_lineage_may_not_list_what_is_being_deleted() -> None:
    first = begun()
    gone = erased(first, "a", "a1", 3)
    back = done(gone, Rebase(manifest=msgspec.structs.replace(first, retired=gone.retired[1:])))
    assert attached(back) == {}
    assert set(objects_in(back.files)) == {A, B}
    deleted = collected(gone, A)
    assert f"being deleted: {A}" in refused(deleted, Rebase(manifest=first))
    anew = msgspec.structs.replace(first, lineage="m", retired=deleted.retired[1:])
    assert attached(done(deleted, Rebase(manifest=anew))) == {}


# Collecting


def test_an_object_that_nothing_has_is_retired_by_its_name_and_a_listed_one_is_not() -> None:
    manifest = begun()
    after = done(manifest, RetireFiles(files=((C, f"_files/33/{C}"),)))
    assert attached(after) == {C: ""}
    assert "are listed" in refused(manifest, RetireFiles(files=((A, f"_files/11/{A}"),)))
    assert "are listed" in refused(manifest, RetireFiles(files=((C, f"_files/33/{C}"), (B, f"_files/22/{B}"))))
    assert "are listed" in refused(manifest, RetireFiles(files=((A, "x/a"),)))
    twice = done(after, RetireFiles(files=((C, f"_files/33/{C}"),)))
    assert twice.retired == after.retired


def test_an_object_takes_the_steps_of_collection_as_a_data_file_does() -> None:
    gone = erased(begun(), "a", "a1", 3)
    assert "not shown" in refused(gone, CollectFiles(deleted=(A,)))
    shown = done(gone, CollectFiles(shown=(A, B)))
    assert attached(shown) == {A: "shown"}
    assert "not deleted" in refused(shown, CollectFiles(forgotten=(A,)))
    deleted = done(shown, CollectFiles(deleted=(A, B)))
    assert attached(deleted) == {A: "deleted"}
    assert attached(done(deleted, CollectFiles(forgotten=(A,)))) == {}


def test_an_object_that_is_listed_again_meanwhile_is_not_deleted() -> None:
    shown = collected(erased(begun(), "a", "a1", 3), A, deleted=False)
    after = done(shown, attach(with_rows(new_file("d", 1), row(0, A))))
    kept = done(after, CollectFiles(deleted=(A,)))
    assert attached(kept) == {}
    # A state that calls it both, which no transaction makes.
    both = msgspec.structs.replace(after, retired=shown.retired)
    assert "its path is listed" in refused(both, CollectFiles(deleted=(A,)))


def test_a_step_of_another_retirement_is_skipped() -> None:
    """Between a collector's look and its commit the object was listed and retired again."""
    gone = erased(begun(), "a", "a1", 3)
    old = {"since": {A: "2026-01"}}
    for step in ("shown", "deleted", "forgotten"):
        after = done(gone, CollectFiles(**{step: (A,)}, **old))
        assert after.retired == gone.retired
    own = {"since": {A: "2026-02", "x": "2026-01"}}
    shown = done(gone, CollectFiles(shown=("a", A), **own))
    assert [file.shown is not None for file in shown.retired] == [True, True]
    assert attached(done(shown, CollectFiles(deleted=(A,), **old))) == {A: "shown"}
    deleted = done(shown, CollectFiles(deleted=(A,), **own))
    assert attached(done(deleted, CollectFiles(forgotten=(A,), **old))) == {A: "deleted"}
    assert attached(done(deleted, CollectFiles(forgotten=(A,), **own))) == {}


@pytest.mark.parametrize(
    "rows", [[row(1, A), row(0, B)], [row(3, A)], [row(0, A), row(7, None)]], ids=["order", "beyond", "far"]
)
def test_rows_that_are_not_of_the_file_s_messages_are_found(rows: Sequence[Attached]) -> None:
    manifest = done(born(), attach(with_rows(new_file("a", 3), *rows)))
    (finding,) = check_state(manifest, "k")
    assert finding.message == "attached files of file a are not in the order of its messages"

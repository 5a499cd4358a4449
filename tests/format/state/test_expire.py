"""The fold of ``expire_files``: what is left keeps its offsets, and the floor only rises."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.errors import CorruptObjectError, ExpiredMessagesError
from singerlake.format.state.additions import Conflict
from singerlake.format.state.features import features_of
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.fold import apply
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import Manifest
from singerlake.format.state.selection import check_offsets, first_offset, newest_version, offset_left, select
from singerlake.format.state.transactions import (
    AddFiles,
    Change,
    Close,
    CollectFiles,
    ExpireFiles,
    Rebase,
    ReplaceFiles,
    RetireFiles,
    Transaction,
)
from singerlake.stores.commit import is_done
from singerlake.upkeep.checks import check_state
from tests.format.state.test_fold import add, born, check_log, done, new_file, refused


def expire(before: int, lineage: str = "l") -> ExpireFiles:
    return ExpireFiles(before=before, lineage=lineage)


def three() -> Manifest:
    """a: 0 to 2, b: 3 and 4 under another schema, c: 5 to 8."""
    return done(born(), add(new_file("a", 3), new_file("b", 2, 1), new_file("c", 4)))


@pytest.mark.parametrize("before", range(10))
def test_the_first_files_go_that_end_at_the_offset_or_earlier(before: int) -> None:
    manifest = three()
    after = done(manifest, expire(before))
    gone = sum(end <= before for end in (3, 5, 9))
    assert after.files == manifest.files[gone:]
    assert [(file.id, file.by, file.since) for file in after.retired] == [
        (file.id, None, "2026-02") for file in manifest.files[:gone]
    ]
    assert after.floor == (0, 3, 5, 9)[gone]
    assert features_of(after) == (("expired",) if gone else ())
    assert after.transaction.number == manifest.transaction.number + 1
    for same in ("next_offset", "versions", "lineage", "runs"):
        assert getattr(after, same) == getattr(manifest, same)
    last = manifest.files[-1].version
    # The last message was of v1, and no label says so.
    marked = {last: msgspec.structs.replace(manifest.schemas[last], newest=True)} if gone == 3 else {}
    assert after.schemas == {**manifest.schemas, **marked}
    assert newest_version(after) == last
    check_log(after)


def test_nothing_to_expire_is_no_conflict_and_adds_no_feature() -> None:
    for manifest in (born(), three()):
        after = done(manifest, expire(0))
        assert (after.files, after.retired, features_of(after)) == (manifest.files, manifest.retired, ())


def test_an_offset_beyond_the_end_is_a_conflict() -> None:
    assert "offset 10 is beyond the stream's end, 9" in refused(three(), expire(10))
    assert "offset 1 is beyond the stream's end, 0" in refused(born(), expire(1))


def test_an_offset_of_another_lineage_is_a_conflict() -> None:
    assert "rebuilt or dropped since" in refused(three(), expire(3, "another"))


def test_a_closed_stream_is_a_conflict_that_names_its_successor() -> None:
    outcome = apply(done(three(), Close(successor="log")), Transaction(id="x", at="2026", change=expire(3)))
    assert isinstance(outcome, Conflict)
    assert outcome.successor == "log"


def test_expiring_twice_changes_nothing_more() -> None:
    once = done(three(), expire(5))
    twice = done(once, expire(5))
    assert (twice.files, twice.retired, features_of(twice)) == (once.files, once.retired, features_of(once))
    earlier = done(once, expire(3))
    assert earlier.floor == 5


def test_what_comes_after_all_has_expired_goes_on_from_the_same_offset_with_the_same_labels() -> None:
    empty = done(three(), expire(9))
    assert (len(empty.files), empty.floor, empty.next_offset) == (0, 9, 9)
    assert newest_version(empty) == next(iter(empty.versions))
    after = done(empty, add(new_file("d", 2, 0), new_file("e", 1, 2)))
    assert [(file.id, file.offset) for file in after.files] == [("d", 9), ("e", 11)]
    assert list(after.versions.values()) == ["v1", "v2", "v3"]
    assert [schema.first_offset for schema in after.schemas.values()] == [0, 3, 11]
    assert features_of(after) == ("expired",)
    check_log(after)


def test_an_expired_file_that_a_late_writer_adds_again_is_refused_and_stays_away() -> None:
    after = done(three(), expire(3))
    assert "upload it again under a new id" in refused(after, add(new_file("a", 3)))
    assert "retired as an orphan" in refused(after, ReplaceFiles(old=("b",), new=(new_file("a", 2, 1),)))


def test_an_expired_file_is_joined_no_more() -> None:
    assert "not listed: a" in refused(done(three(), expire(3)), ReplaceFiles(old=("a",), new=(new_file("n", 3),)))


def test_a_file_that_was_joined_across_the_offset_stays_whole() -> None:
    two = done(born(), add(new_file("a", 3), new_file("b", 2), new_file("c", 4)))
    joined = done(two, ReplaceFiles(old=("a", "b"), new=(new_file("ab", 5),)))
    assert done(joined, expire(3)).files == joined.files
    assert done(joined, expire(5)).floor == 5


def test_what_is_done_is_known_by_the_state() -> None:
    manifest = three()
    assert is_done(manifest, expire(0))
    assert is_done(manifest, expire(2))
    assert not is_done(manifest, expire(3))
    assert not is_done(manifest, expire(10))
    after = done(manifest, expire(3))
    assert is_done(after, expire(3))
    assert is_done(after, expire(4))
    assert not is_done(after, expire(5))
    assert not is_done(after, expire(3, "another"))
    assert is_done(done(after, expire(9)), expire(9))


def test_a_rebase_may_list_expired_files_again_until_they_are_deleted() -> None:
    whole = three()
    expired = done(whole, expire(3))
    again = done(expired, Rebase(manifest=whole))
    assert (again.floor, features_of(again)) == (0, ())
    going = done(done(expired, CollectFiles(shown=("a",))), CollectFiles(deleted=("a",)))
    assert "being deleted: a" in refused(going, Rebase(manifest=whole))


# What readers do with it


def test_a_reader_begins_at_the_floor_and_a_version_without_files_there_too() -> None:
    after = done(three(), expire(5))
    assert [first_offset(after, text) for text in (None, "v1", "v2")] == [5, 5, 5]
    assert [part.offset for part in select(after)] == [5]
    assert [part.offset for part in select(after, offset=7)] == [7]
    assert select(after, versions=["v2"]) == []
    assert select(after, end=4) == []


@pytest.mark.parametrize("wanted", [0, 4, 5, 6, 9, 20])
def test_an_offset_below_the_floor_is_an_error_or_means_the_floor(wanted: int) -> None:
    after = done(three(), expire(5))
    assert offset_left(after, wanted, skip_expired=True) == max(wanted, 5)
    if wanted >= 5:
        assert offset_left(after, wanted, skip_expired=False) == wanted
        return
    with pytest.raises(ExpiredMessagesError, match=f"from offset {wanted} to 4 expired before they were read"):
        offset_left(after, wanted, skip_expired=False)


def replaced(manifest: Manifest, **changes: object) -> Manifest:
    return msgspec.structs.replace(manifest, **changes)


@pytest.mark.parametrize("before", [3, 5, 9])
def test_a_floor_is_refused_in_a_state_that_does_not_name_it(before: int) -> None:
    after = done(three(), expire(before))
    check_offsets(after, after.files, after.floor, 9)
    assert check_state(after, "k") == ()
    with pytest.raises(CorruptObjectError, match="'features' does not name 'expired', which it has"):
        from_json(to_json(after).replace(b'"features":["expired"],', b""), key="k")


def test_gaps_and_wrong_ends_are_refused_above_a_floor_as_below_it() -> None:
    after = done(done(three(), add(new_file("d", 1))), expire(3))
    gap = replaced(after, files=[after.files[0], after.files[2]])
    with pytest.raises(CorruptObjectError, match="begins at offset 9, 5 is next"):
        check_offsets(gap, gap.files, 3, 10)
    assert [finding.kind for finding in check_state(gap, "k")] == ["offsets"]
    for end in (9, 11):
        wrong = replaced(after, next_offset=end)
        with pytest.raises(CorruptObjectError, match=f"its files end at offset 10, the next one is {end}"):
            check_offsets(wrong, wrong.files, 3, end)
        assert check_state(wrong, "k")
    with pytest.raises(CorruptObjectError, match="no file holds offset 2"):
        check_offsets(replaced(after, files=[]), FileList(), 2, 3)


def test_a_state_with_a_floor_comes_back_as_it_was_stored() -> None:
    for before in (3, 5, 9):
        after = done(three(), expire(before))
        assert from_json(to_json(after), key="k") == after


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.integers(0, 12), min_size=1, max_size=3), st.integers(0, 2)),
        st.tuples(st.just("replace"), st.integers(0, 5), st.integers(1, 3)),
        st.tuples(st.just("expire"), st.integers(0, 30), st.none()),
        st.tuples(st.just("retire"), st.lists(st.integers(0, 12), min_size=1, max_size=2), st.none()),
        st.tuples(st.just("collect"), st.integers(0, 7), st.none()),
        st.tuples(st.just("again"), st.integers(0, 30), st.none()),
    ),
    max_size=25,
)


def _change(manifest: Manifest, history: list[Change], kind: str, first: object, second: object) -> Change | None:
    if kind == "again":
        assert isinstance(first, int)
        return history[first % len(history)] if history else None
    if kind == "add":
        assert isinstance(first, list)
        assert isinstance(second, int)
        return add(*(new_file(f"f{n}", 1 + n % 3, second) for n in dict.fromkeys(first)))
    if kind == "expire":
        assert isinstance(first, int)
        return expire(first)
    if kind == "retire":
        assert isinstance(first, list)
        return RetireFiles(files=tuple((f"f{n}", f"x/f{n}") for n in dict.fromkeys(first)))
    if kind == "collect":
        assert isinstance(first, int)
        chosen = [file for place, file in enumerate(manifest.retired) if first >> place % 3 & 1]
        return CollectFiles(
            shown=tuple(file.id for file in chosen if file.shown is None),
            deleted=tuple(file.id for file in chosen if file.shown and not file.deleted),
        )
    if not manifest.files:
        return None
    assert isinstance(first, int)
    assert isinstance(second, int)
    start = first % len(manifest.files)
    run = [file for file in manifest.files[start : start + second] if file.version == manifest.files[start].version]
    new = new_file(f"m{len(history)}", sum(file.messages for file in run), version=run[0].version)
    return ReplaceFiles(old=tuple(file.id for file in run), new=(new,))


@given(STEPS)
def test_no_offset_of_what_is_left_moves_and_the_floor_only_rises(
    steps: list[tuple[str, object, object]],
) -> None:
    manifest = born()
    history: list[Change] = []
    holder: dict[int, str] = {}
    origins: dict[str, list[str]] = {}
    for kind, first, second in steps:
        change = _change(manifest, history, kind, first, second)
        if change is None:
            continue
        history.append(change)
        outcome = apply(manifest, Transaction(id=str(len(history)), at="2026", change=change))
        if isinstance(outcome, Conflict):
            continue
        if isinstance(change, ReplaceFiles):
            made = change.new[0].id
            origins.setdefault(made, [each for old in change.old for each in origins.get(old, [old])])
        assert outcome.floor >= manifest.floor
        assert outcome.next_offset >= manifest.next_offset
        assert outcome.floor == manifest.floor or isinstance(change, ExpireFiles)
        if isinstance(change, ExpireFiles):
            assert manifest.floor <= outcome.floor <= max(manifest.floor, change.before)
            assert is_done(outcome, change)
            assert outcome.files == manifest.files[len(manifest.files) - len(outcome.files) :]
        if not isinstance(change, AddFiles):
            assert outcome.next_offset == manifest.next_offset
        manifest = outcome
        check_log(manifest)
        assert check_state(manifest, "k") == ()
        check_offsets(manifest, manifest.files, manifest.floor, manifest.next_offset)
        for file in manifest.files:
            source = origins.get(file.id, [file.id])[0]
            assert holder.setdefault(file.offset, source) == source

"""One suite for every manifest store: how writers agree, whatever comes between them.

The cases are those of Sleeper's file reference store suite and of MPS3's suites, in this format's terms.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from singerlake.errors import TooManyConflictsError, UnknownOutcomeError
from singerlake.format import layout
from singerlake.format.state import fold
from singerlake.format.state.additions import Conflict
from singerlake.format.state.model import Manifest, Retired, Run, StreamSchema
from singerlake.format.state.transactions import (
    AddFiles,
    Close,
    CollectFiles,
    EraseFiles,
    Rebase,
    RecordRun,
    ReplaceFiles,
    RetireFiles,
    Transaction,
)
from singerlake.stores.commit import commit_once, commit_transaction
from singerlake.stores.port import Loaded, Outdated, Pending
from tests.format.state.test_fold import add, check_log, new_file, with_holes
from tests.stores.stores import Place

KEY = layout.manifest_key("t", "s")


def run(status: str = "running", **changes: object) -> Run:
    return Run(id="r1", writer="w", started="2026", updated="2026", status=status, **changes)  # type: ignore[arg-type]


def test_a_stream_that_was_never_born_has_no_state(place: Place) -> None:
    assert place.store().load() is None


def test_of_two_births_one_stays_and_both_writers_go_on_from_it(place: Place) -> None:
    one = place.store().create(place.first())
    other = place.store().create(place.first())
    assert one.manifest == other.manifest == place.state()
    assert one.manifest.transaction.number == 0


def test_what_one_writer_commits_another_loads(place: Place) -> None:
    place.committed(place.born(), add(new_file("a", 3), new_file("b", 2)))
    assert [(file.id, file.offset) for file in place.state().files] == [("a", 0), ("b", 3)]


def test_a_transaction_comes_back_as_it_was(place: Place) -> None:
    schema = StreamSchema(schema={"a": [None, 1.5, 12345678901234567890123, "\ud800 \u0000 ü"], "b": {}})
    change = AddFiles(files=(new_file("a", 3, version="1234567"),), schemas={"1234567": schema}, run=run())
    place.committed(place.born(), change)
    state = place.state()
    (version,) = state.schemas
    assert state.schemas[version].schema == schema.schema
    assert [(each.id, each.files, each.messages) for each in state.runs] == [("r1", 1, 3)]
    assert state.transaction.number == 1


def test_a_commit_on_an_old_state_is_refused_as_a_value_or_put_behind(place: Place) -> None:
    base = place.born()
    place.committed(base, add(new_file("a")))
    store = place.store()
    outcome = commit_once(store, base, place.transaction(add(new_file("b"))), clock=place.clock)
    if isinstance(outcome, Outdated):
        assert place.listed() == ["a"]
    else:
        assert place.listed() == ["a", "b"]


def test_the_loop_catches_up_after_another_writer_came_between(place: Place) -> None:
    base = place.born()
    place.committed(base, add(new_file("a")))
    place.committed(base, add(new_file("b")))
    assert place.listed() == ["a", "b"]


def test_catching_up_gives_what_loading_gives_however_much_came_between(place: Place) -> None:
    base = place.born()
    for number in range(5):
        place.committed(base, add(new_file(f"f{number}")))
        caught = place.store().catch_up(base)
        assert caught is not None
        assert caught.manifest == place.state()
    again = place.store().catch_up(caught)
    assert again is not None
    assert again.manifest == caught.manifest


def test_committing_the_same_files_again_changes_nothing(place: Place) -> None:
    base = place.born()
    once = place.committed(base, add(new_file("a")))
    twice = place.committed(base, add(new_file("a")))
    assert once.manifest.files == twice.manifest.files
    assert place.listed() == ["a"]


def test_files_of_one_transaction_keep_their_order(place: Place) -> None:
    names = [f"f{number}" for number in (3, 1, 2, 9, 0)]
    place.committed(place.born(), add(*(new_file(name, 2) for name in names)))
    assert [(file.id, file.offset) for file in place.state().files] == list(zip(names, range(0, 10, 2), strict=True))


def test_a_part_that_is_there_already_is_skipped_and_the_rest_is_added(place: Place) -> None:
    base = place.committed(place.born(), add(new_file("a", 3)))
    place.committed(base, add(new_file("a", 3), new_file("b", 2)))
    assert [(file.id, file.offset) for file in place.state().files] == [("a", 0), ("b", 3)]


def test_files_are_replaced_atomically_and_once(place: Place) -> None:
    base = place.committed(place.born(), add(new_file("a", 3), new_file("b", 2)), add(new_file("c", 1)))
    change = ReplaceFiles(old=("a", "b"), new=(new_file("ab", 5),))
    for _ in range(2):
        place.committed(base, change)
        assert place.listed() == ["ab", "c"]
    assert [(gone.id, gone.by) for gone in place.state().retired] == [("a", "ab"), ("b", "ab")]


@pytest.mark.crossed("place", "change")
@pytest.mark.parametrize(
    "change",
    [
        ReplaceFiles(old=("a", "x"), new=(new_file("n", 5),)),
        ReplaceFiles(old=("a",), new=(new_file("n", 4),)),
        ReplaceFiles(old=("a",), new=(new_file("b", 2), new_file("n", 1))),
        ReplaceFiles(old=("a", "c"), new=(new_file("n", 4),)),
        ReplaceFiles(old=(), new=(new_file("n", 4),)),
        RetireFiles(files=(("a", "p"),)),
        RetireFiles(files=(("orphan", "p"), ("b", "p"))),
        EraseFiles(old=("x",), new=(with_holes(new_file("n", 3), 1),)),
        EraseFiles(old=("a",), new=(msgspec.structs.replace(new_file("n", 3), erased=1),)),
        ReplaceFiles(old=("a",), new=(with_holes(new_file("n", 3), 1),)),
    ],
    ids=[
        "input missing",
        "too many messages",
        "output present",
        "not contiguous",
        "no input",
        "listed",
        "one listed",
        "nothing to erase from",
        "more than each record",
        "holes in a replacement",
    ],
)
def test_what_does_not_fit_is_a_conflict_and_has_no_effect_at_all(
    place: Place, change: ReplaceFiles | RetireFiles
) -> None:
    base = place.committed(place.born(), add(new_file("a", 3), new_file("b", 2), new_file("c", 1)))
    assert isinstance(place.commit(base, change), Conflict)
    after = place.state()
    assert (after.files, after.retired) == (base.manifest.files, base.manifest.retired)
    place.committed(base, add(new_file("d", 1)))
    assert place.listed() == ["a", "b", "c", "d"]


def test_of_two_replacements_of_one_file_one_is_a_conflict(place: Place) -> None:
    base = place.committed(place.born(), add(new_file("a", 3), new_file("b", 2)))
    one = place.commit(base, ReplaceFiles(old=("a", "b"), new=(new_file("ab", 5),)))
    other = place.commit(base, ReplaceFiles(old=("b",), new=(new_file("b2", 2),)))
    assert isinstance(one, Loaded)
    assert isinstance(other, Conflict)
    assert place.listed() == ["ab"]


def test_a_conflict_with_an_old_state_alone_is_none(place: Place) -> None:
    old = place.born()
    place.committed(old, add(new_file("a", 3), new_file("b", 2)))
    place.committed(old, ReplaceFiles(old=("a", "b"), new=(new_file("ab", 5),)))
    assert place.listed() == ["ab"]


def test_another_file_under_a_listed_id_is_refused(place: Place) -> None:
    base = place.committed(place.born(), add(new_file("a", 3)))
    other = msgspec.structs.replace(new_file("a", 3), sha256="1" * 64)
    assert isinstance(place.commit(base, add(other)), Conflict)
    assert place.state().files == base.manifest.files


@pytest.mark.crossed("place", "change")
@pytest.mark.parametrize(
    "change",
    [
        add(new_file("b"), new_file("b")),
        RetireFiles(files=(("o", "p"), ("o", "p"))),
        ReplaceFiles(old=("a", "a"), new=(new_file("n", 6),)),
    ],
    ids=["added", "retired", "replaced"],
)
def test_one_file_named_twice_in_one_change_is_a_conflict(
    place: Place, change: AddFiles | RetireFiles | ReplaceFiles
) -> None:
    base = place.committed(place.born(), add(new_file("a", 3)))
    assert isinstance(place.commit(base, change), Conflict)
    assert place.state().files == base.manifest.files


def test_an_orphan_that_was_retired_cannot_be_added_and_one_that_was_replaced_is_skipped(place: Place) -> None:
    base = place.committed(place.born(), add(new_file("a", 3)), RetireFiles(files=(("orphan", "v/orphan"),)))
    assert isinstance(place.commit(base, add(new_file("orphan"))), Conflict)
    base = place.committed(base, ReplaceFiles(old=("a",), new=(new_file("a2", 3),)))
    place.committed(base, add(new_file("a", 3)))
    assert place.listed() == ["a2"]
    assert [(gone.id, gone.by) for gone in place.state().retired] == [("orphan", None), ("a", "a2")]


def test_what_is_retired_is_shown_then_deleted_then_forgotten(place: Place) -> None:
    base = place.committed(place.born(), add(new_file("a", 3), new_file("b", 2)))
    base = place.committed(base, ReplaceFiles(old=("a", "b"), new=(new_file("ab", 5),)))
    base = place.committed(base, RetireFiles(files=(("o", "v/o"),)), CollectFiles(shown=("a", "b")))
    assert [file.shown is not None for file in place.state().retired] == [True, True, False]
    base = place.committed(base, CollectFiles(shown=("o",), deleted=("a",)))
    assert place.state() == base.manifest
    assert [file.deleted is not None for file in base.manifest.retired] == [True, False, False]
    old = base
    base = place.committed(base, CollectFiles(deleted=("b", "o"), forgotten=("a",)))
    assert [file.id for file in place.state().retired] == ["b", "o"]
    place.committed(old, add(new_file("c")))
    assert [file.id for file in place.state().retired] == ["b", "o"]
    assert place.listed() == ["ab", "c"]


@pytest.mark.crossed("place", "change")
@pytest.mark.parametrize(
    "change", [CollectFiles(shown=("c",)), CollectFiles(deleted=("a",)), CollectFiles(shown=("a",), forgotten=("a",))]
)
def test_a_step_of_collection_that_does_not_fit_is_a_conflict(place: Place, change: CollectFiles) -> None:
    base = place.committed(place.born(), add(new_file("a", 3), new_file("c")))
    base = place.committed(base, ReplaceFiles(old=("a",), new=(new_file("b", 3),)))
    assert isinstance(place.commit(base, change), Conflict)
    assert place.state().retired == base.manifest.retired


def test_a_step_of_collection_that_was_taken_is_not_committed_again(place: Place) -> None:
    base = place.committed(place.born(), RetireFiles(files=(("o", "v/o"),)))
    first = place.committed(base, CollectFiles(shown=("o",)))
    again = place.committed(base, CollectFiles(shown=("o",)))
    assert again.manifest.retired == first.manifest.retired


def test_runs_are_kept_by_their_id(place: Place) -> None:
    base = place.committed(place.born(), RecordRun(run=run()), RecordRun(run=run("completed")))
    assert [(each.id, each.status) for each in base.manifest.runs] == [("r1", "completed")]
    assert place.state().runs == base.manifest.runs


def test_a_rebase_replaces_the_state_and_numbers_go_on(place: Place) -> None:
    base = place.committed(place.born(), add(new_file("a", 3)))
    fresh = place.first()
    rebuilt = fold.apply(fresh, place.transaction(add(new_file("z", 7))))
    assert isinstance(rebuilt, Manifest)
    after = place.committed(base, Rebase(manifest=rebuilt)).manifest
    assert (after.lineage, after.next_offset, after.transaction.number) == (fresh.lineage, 7, 2)
    assert place.state() == after
    place.committed(base, add(new_file("b", 1)))
    assert [(file.id, file.offset) for file in place.state().files] == [("z", 0), ("b", 7)]


def test_a_live_writer_of_a_closed_stream_is_told_its_successor(place: Place) -> None:
    base = place.born()
    place.committed(base, Close(successor="elsewhere"))
    outcome = place.commit(base, add(new_file("a")))
    assert isinstance(outcome, Conflict)
    assert outcome.successor == "elsewhere"
    assert place.state().closed == "elsewhere"
    assert place.listed() == []


def test_many_writers_in_turn_lose_nothing_and_double_nothing(place: Place) -> None:
    bases = [place.born() for _ in range(4)]
    for number in range(5):
        for writer in range(4):
            bases[writer] = place.committed(bases[writer], add(new_file(f"w{writer}n{number}", number + 1)))
    state = place.state()
    assert len({file.id for file in state.files}) == len(state.files) == 20
    assert state.next_offset == 4 * sum(range(1, 6))
    assert state.transaction.number == 20


def test_streams_of_one_lake_do_not_touch_each_other(place: Place) -> None:
    one, other = place.born("s"), place.born("S")
    place.committed(one, add(new_file("a")))
    outcome = place.commit(other, add(new_file("b")), stream="S")
    assert isinstance(outcome, Loaded)
    assert (place.listed("s"), place.listed("S")) == (["a"], ["b"])


def test_a_writer_that_loses_every_race_gives_up_with_nothing_committed(place: Place) -> None:
    base = place.born()
    store = place.store()

    class AlwaysLate:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def commit(self, base: Loaded, transaction: object) -> Outdated:
            return Outdated()

    with pytest.raises(TooManyConflictsError, match="7 times in a row"):
        commit_transaction(AlwaysLate(), base, place.transaction(add(new_file("mine"))), clock=place.clock, attempts=7)  # type: ignore[arg-type]
    assert place.listed() == []


def test_no_attempt_commits_nothing(place: Place) -> None:
    with pytest.raises(TooManyConflictsError):
        commit_transaction(
            place.store(), place.born(), place.transaction(add(new_file("a"))), clock=place.clock, attempts=0
        )
    assert place.listed() == []


def test_a_state_that_disappears_during_a_commit_is_not_taken_for_a_new_stream(place: Place) -> None:
    base = place.born()
    store = place.store()

    class Gone:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def commit(self, base: Loaded, transaction: object) -> Outdated:
            return Outdated()

        def catch_up(self, base: Loaded) -> None:
            return None

    with pytest.raises(UnknownOutcomeError, match="disappeared"):
        commit_transaction(Gone(), base, place.transaction(add(new_file("a"))), clock=place.clock)  # type: ignore[arg-type]


@pytest.mark.parametrize("commit", [commit_transaction, commit_once])
def test_a_commit_that_is_never_settled_is_waited_for_ten_minutes_and_then_unknown(
    place: Place, commit: Callable[..., object]
) -> None:
    base, store = place.born(), place.store()

    class NeverSettles:
        def __getattr__(self, name: str) -> object:
            return getattr(store, name)

        def commit(self, base: Loaded, transaction: Transaction) -> Pending:
            return Pending(transaction.id, "somewhere")

        def settle(self, base: Loaded, pending: Pending) -> None:
            return None

    began = place.clock.monotonic()
    with pytest.raises(UnknownOutcomeError, match="not settled in time"):
        commit(NeverSettles(), base, place.transaction(add(new_file("a"))), clock=place.clock)
    assert 600 < place.clock.monotonic() - began < 602


def test_a_manifest_says_what_no_store_may_lose(place: Place) -> None:
    base = place.committed(
        place.born(),
        add(new_file("a", 3)),
        RetireFiles(files=(("o", "v/o"),)),
        RecordRun(run=run("failed")),
    )
    state = place.state()
    check_log(state)
    assert state == base.manifest
    assert [gone.path for gone in state.retired] == ["v/o"]
    assert isinstance(state.retired[0], Retired)

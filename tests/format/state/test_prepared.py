"""What an atomic run prepares in the fold, and what settles it; and what it commits at once."""

from __future__ import annotations

import msgspec
import pytest

from singerlake.format.decision import Brought, Decision
from singerlake.format.state.additions import Conflict
from singerlake.format.state.features import features_of
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.fold import apply
from singerlake.format.state.manifest import to_json
from singerlake.format.state.model import Manifest, Run
from singerlake.format.state.prepared import brought, brought_between, settlement
from singerlake.format.state.transactions import (
    AddFiles,
    Change,
    Close,
    CollectFiles,
    CommitFiles,
    ExpireFiles,
    PrepareFiles,
    Rebase,
    RecordRun,
    ReplaceFiles,
    RetireFiles,
    Settle,
    Transaction,
)
from tests.format.state.test_attach_files import A, attached, collected, erased, row, with_rows
from tests.format.state.test_attach_files import begun as begun_attached
from tests.format.state.test_fold import add, born, check_log, done, new_file, refused

X, Y, Z = (f"2026010{day}T000000.000000Z-{'x' * 15}{day}" for day in (1, 2, 3))
RUN = Run(id="r", writer="w", started="2026")


def prepare(commit: str, *files: NewFile, run: Run | None = None) -> PrepareFiles:
    plain = add(*files, run=run)
    return PrepareFiles(commit=commit, files=plain.files, schemas=plain.schemas, run=run)


def commit(name: str, *files: NewFile, run: Run | None = None) -> CommitFiles:
    plain = add(*files, run=run)
    return CommitFiles(commit=name, files=plain.files, schemas=plain.schemas, run=run)


def begun() -> Manifest:
    return done(born(), add(new_file("a", 3)))


def undecided() -> Manifest:
    return done(begun(), prepare(X, new_file("b", 2), new_file("c", 4, schema=1), run=RUN))


def test_what_is_prepared_is_not_there_for_readers() -> None:
    before, state = begun(), undecided()
    for name in ("files", "next_offset", "versions", "schemas", "retired", "runs"):
        assert getattr(state, name) == getattr(before, name)
    assert (features_of(state), state.transaction.number) == (("atomic",), before.transaction.number + 1)
    assert b"prepared" not in to_json(state.shown)
    assert state.shown.files == before.files
    assert before.shown is before
    assert brought(state) == Brought(lineage="l", offset=3, end=9)


def test_a_commit_does_what_adding_the_files_would() -> None:
    state = done(undecided(), Settle(commit=X, committed=True))
    plain = done(begun(), add(new_file("b", 2), new_file("c", 4, schema=1), run=RUN))
    expected = msgspec.structs.replace(plain, settled=X, transaction=state.transaction)
    assert state == expected
    check_log(state)


def test_a_run_that_is_decided_against_leaves_the_stream_as_it_was() -> None:
    state = done(undecided(), Settle(commit=X, committed=False))
    kept = msgspec.structs.replace(begun(), transaction=state.transaction)
    assert state == kept
    again = done(done(state, prepare(Y, new_file("b", 2))), Settle(commit=Y, committed=True))
    assert [file.id for file in again.files] == ["a", "b"]


@pytest.mark.parametrize(
    "change",
    [
        add(new_file("d")),
        prepare(Y, new_file("d")),
        ReplaceFiles(old=("a",), new=(new_file("d", 3),)),
        ExpireFiles(before=3, lineage="l"),
        RetireFiles(files=(("o", "x/o"),)),
        CollectFiles(shown=("o",)),
        RecordRun(run=RUN),
        Rebase(manifest=born()),
        Close(successor="lockfile"),
    ],
    ids=lambda change: type(change).__name__,
)
def test_nothing_comes_behind_what_is_undecided(change: Change) -> None:
    outcome = apply(undecided(), Transaction(id="t", at="2026", change=change))
    assert isinstance(outcome, Conflict)
    assert outcome.undecided == X


def test_only_the_commit_that_is_prepared_is_settled() -> None:
    assert X in refused(undecided(), Settle(commit=Y, committed=True))
    assert "nothing is prepared" in refused(begun(), Settle(commit=X, committed=False))


def test_names_of_commits_ascend_in_a_stream() -> None:
    state = done(done(begun(), prepare(Y, new_file("b"))), Settle(commit=Y, committed=True))
    for name in (X, Y):
        assert "not greater" in refused(state, prepare(name, new_file("c")))
    assert done(state, prepare(Z, new_file("c"))).prepared is not msgspec.UNSET
    aborted = done(done(begun(), prepare(Y, new_file("b"))), Settle(commit=Y, committed=False))
    assert done(aborted, prepare(X, new_file("b"))).prepared is not msgspec.UNSET


def test_what_would_not_fit_is_refused_before_it_is_prepared() -> None:
    assert "other content" in refused(begun(), prepare(X, msgspec.structs.replace(new_file("a"), sha256="1" * 64)))
    assert "named twice" in refused(begun(), prepare(X, new_file("b"), new_file("b")))
    assert "no schema" in refused(begun(), PrepareFiles(commit=X, files=(new_file("b", schema=1),), schemas={}))
    orphan = done(begun(), RetireFiles(files=(("o", "x/o"),)))
    assert "orphan" in refused(orphan, prepare(X, new_file("o")))
    deleted = collected(erased(begun_attached(), "a", "n", 1), A)
    assert "deleted" in refused(deleted, prepare(X, with_rows(new_file("d"), row(0, A))))


def test_files_that_are_known_already_are_not_brought_again() -> None:
    state = done(begun(), prepare(X, new_file("a", 3)))
    assert brought(state) is None
    assert done(state, Settle(commit=X, committed=True)).next_offset == 3


def test_an_attached_object_leaves_the_retired_ones_when_the_run_is_settled() -> None:
    gone = erased(begun_attached(), "a", "n", 1)
    assert A in attached(gone)
    state = done(gone, prepare(X, with_rows(new_file("d"), row(0, A))))
    assert A in attached(state)
    assert A not in attached(done(state, Settle(commit=X, committed=True)))


def test_a_rebase_keeps_the_greatest_name() -> None:
    state = done(done(begun(), prepare(Y, new_file("b"))), Settle(commit=Y, committed=True))
    after = done(state, Rebase(manifest=msgspec.structs.replace(born(), lineage="m")))
    assert (after.settled, features_of(after)) == (Y, ("atomic",))
    greater = done(state, Rebase(manifest=msgspec.structs.replace(state, settled=Z)))
    assert greater.settled == Z
    assert features_of(done(begun(), Rebase(manifest=begun()))) == ()


def test_the_settlement_is_the_same_whoever_makes_it() -> None:
    decision = Decision(id=X, at="2026-01-01T00:00:00Z", run="r", writer="w", committed=True)
    made = settlement(decision)
    assert made == settlement(msgspec.structs.replace(decision, writer="another"))
    assert (made.id, made.at, made.change) == (f"{X}-settled", decision.at, Settle(commit=X, committed=True))


def test_a_state_without_atomic_runs_says_nothing_of_them() -> None:
    assert b"settled" not in to_json(begun())
    assert b"prepared" not in to_json(begun())


def test_older_versions_do_not_take_a_prepared_file_for_an_added_one() -> None:
    encoded = msgspec.json.encode(prepare(X, new_file("b")))
    with pytest.raises(msgspec.ValidationError, match="prepare_files"):
        msgspec.json.decode(encoded, type=AddFiles | ReplaceFiles | Rebase)


def test_what_is_committed_at_once_is_what_was_prepared_and_settled() -> None:
    files = (new_file("b", 2), new_file("c", 4, schema=1))
    settled = done(undecided(), Settle(commit=X, committed=True))
    at_once = done(begun(), commit(X, *files, run=RUN))
    check_log(at_once)
    position = at_once.transaction
    assert msgspec.structs.replace(settled, transaction=position) == at_once
    assert position.number == begun().transaction.number + 1
    assert brought_between(begun(), at_once) == Brought(lineage="l", offset=3, end=9)


def test_committed_names_ascend_too() -> None:
    state = done(begun(), commit(Y, new_file("b")))
    for name in (X, Y):
        assert "not greater" in refused(state, commit(name, new_file("c")))
        assert "not greater" in refused(state, prepare(name, new_file("c")))
    assert done(state, commit(Z, new_file("c"))).settled == Z


def test_what_does_not_fit_cannot_be_committed_at_once_either() -> None:
    gone = done(begun(), RetireFiles(files=(("b", "x/b"),)))
    assert "orphan" in refused(gone, commit(X, new_file("b")))
    assert "twice" in refused(begun(), commit(X, new_file("b"), new_file("b")))
    assert "not decided" in refused(undecided(), commit(Y, new_file("d")))
    assert "closed" in refused(done(begun(), Close(successor="log")), commit(X, new_file("b")))


def test_files_that_are_known_already_are_not_committed_again() -> None:
    before = begun()
    state = done(before, commit(X, new_file("a", 3)))
    assert brought_between(before, state) is None
    assert (state.next_offset, state.settled) == (3, X)


def test_an_attached_object_that_is_committed_leaves_the_retired_ones() -> None:
    gone = erased(begun_attached(), "a", "n", 1)
    assert A not in attached(done(gone, commit(X, with_rows(new_file("d"), row(0, A)))))


def test_older_versions_do_not_take_a_committed_file_for_an_added_one() -> None:
    encoded = msgspec.json.encode(commit(X, new_file("b")))
    with pytest.raises(msgspec.ValidationError, match="commit_files"):
        msgspec.json.decode(encoded, type=AddFiles | PrepareFiles | Settle | ReplaceFiles | Rebase)

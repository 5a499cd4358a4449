"""What several writers add in one transaction, in the fold."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.state.additions import Conflict
from singerlake.format.state.features import features_of
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Run
from singerlake.format.state.transactions import (
    AddFiles,
    AddTogether,
    AttachFiles,
    RecordRun,
    ReplaceFiles,
    RetireFiles,
    Transaction,
)
from singerlake.stores.commit import is_done
from tests.format.state.test_attach_files import A, attach, row, with_rows
from tests.format.state.test_fold import add, born, check_log, done, new_file, refused

ONE, OTHER = (Run(id=name, writer="w", started="2026", updated="2026") for name in ("one", "other"))

PARTS = st.lists(
    st.tuples(
        st.integers(0, 2), st.lists(st.integers(1, 3), min_size=1, max_size=3), st.sampled_from([None, ONE, OTHER])
    ),
    min_size=1,
    max_size=6,
)


@given(PARTS)
def test_parts_come_as_if_each_came_alone(drawn: list[tuple[int, list[int], Run | None]]) -> None:
    parts = [
        add(*(new_file(f"{at}.{file}", messages, schema) for file, messages in enumerate(sizes)), run=run)
        for at, (schema, sizes, run) in enumerate(drawn)
    ]
    together = done(born(), AddTogether(parts=tuple(parts)))
    alone = born()
    for part in parts:
        alone = done(alone, part)
    assert together.transaction.number == 1
    assert msgspec.structs.replace(alone, transaction=together.transaction) == together
    check_log(together)


def test_runs_keep_their_own_counts() -> None:
    state = done(
        born(),
        AddTogether(
            parts=(add(new_file("a", 3), run=ONE), add(new_file("b", 2), run=OTHER), add(new_file("c", 1), run=ONE))
        ),
    )
    assert [(run.id, run.files, run.messages) for run in state.runs] == [("one", 2, 4), ("other", 1, 2)]


def test_a_part_that_is_known_is_passed_over_with_its_run() -> None:
    part, other = add(new_file("a"), run=ONE), add(new_file("b"), run=OTHER)
    state = done(born(), part)
    ended = done(state, RecordRun(run=msgspec.structs.replace(ONE, status="finished")))
    after = done(ended, AddTogether(parts=(part, other)))
    assert [file.id for file in after.files] == ["a", "b"]
    assert [(run.id, run.files, run.status) for run in after.runs] == [("one", 1, "finished"), ("other", 1, "running")]


def test_a_part_that_was_replaced_since_is_known() -> None:
    part = add(new_file("a"))
    state = done(done(born(), part), ReplaceFiles(old=("a",), new=(new_file("b"),)))
    after = done(state, AddTogether(parts=(part, add(new_file("c")))))
    assert [file.id for file in after.files] == ["b", "c"]


def test_of_a_part_that_is_half_known_the_rest_is_added() -> None:
    state = done(born(), add(new_file("a")))
    after = done(state, AddTogether(parts=(add(new_file("a"), new_file("b"), run=ONE),)))
    assert [file.id for file in after.files] == ["a", "b"]
    assert [run.files for run in after.runs] == [1]


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ((), "none"),
        ((add(new_file("b")), add(new_file("b"))), "named twice"),
        ((add(new_file("b")), AddFiles(files=(new_file("c", schema=2),), schemas={})), "no schema"),
        ((add(new_file("b")), add(msgspec.structs.replace(new_file("a"), sha256="1" * 64))), "other content"),
        ((add(new_file("b")), add(new_file("gone"))), "retired as an orphan"),
    ],
)
def test_one_part_that_does_not_fit_makes_all_of_it_a_conflict(parts: tuple[AddFiles, ...], reason: str) -> None:
    state = done(done(born(), add(new_file("a"))), RetireFiles(files=(("gone", "x/gone"),)))
    assert reason in refused(state, AddTogether(parts=parts))


def test_a_later_part_may_rest_on_the_schema_of_an_earlier_one() -> None:
    first = add(new_file("a"))
    bare = AddFiles(files=(new_file("b"),), schemas={})
    assert isinstance(apply(born(), Transaction(id="t", at="2026", change=bare)), Conflict)
    assert len(done(born(), AddTogether(parts=(first, bare))).files) == 2


def test_the_features_are_those_of_the_parts() -> None:
    plain = done(born(), AddTogether(parts=(add(new_file("a")), add(new_file("b")))))
    with_attached = AddTogether(parts=(add(new_file("a")), attach(with_rows(new_file("b"), row(0, A)))))
    assert (features_of(plain), features_of(done(born(), with_attached))) == ((), ("attached",))


def test_it_is_done_when_all_of_its_parts_are() -> None:
    parts = (add(new_file("a")), add(new_file("b")))
    state = done(born(), parts[0])
    assert not is_done(state, AddTogether(parts=parts))
    assert not is_done(state, AddTogether(parts=()))
    assert is_done(done(state, parts[1]), AddTogether(parts=parts))


def test_it_comes_back_from_json_and_an_older_reader_refuses_it() -> None:
    change = AddTogether(parts=(add(new_file("a"), run=ONE), attach(with_rows(new_file("b"), row(0, A)))))
    transaction = Transaction(id="t", at="2026", change=change)
    body = msgspec.json.encode(transaction)
    back = msgspec.json.decode(body, type=Transaction)
    assert back == transaction
    assert isinstance(back.change, AddTogether)
    assert [type(part) for part in back.change.parts] == [AddFiles, AttachFiles]
    with pytest.raises(msgspec.ValidationError, match="add_together"):
        msgspec.json.decode(msgspec.json.encode(change), type=AddFiles | AttachFiles | ReplaceFiles | RecordRun)

"""Files with attached files as patches of the ``merge`` store."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.exact_json import decode, encode
from singerlake.format.merge.patch import MergeEntry, to_entry, to_transaction
from singerlake.format.state import additions, fold
from singerlake.format.state.attached import Attached
from singerlake.format.state.files.data_file import NewFile
from singerlake.format.state.model import Run
from singerlake.format.state.transactions import (
    AddFiles,
    AttachFiles,
    Change,
    CollectFiles,
    EraseFiles,
    ExpireFiles,
    Rebase,
    ReplaceFiles,
    RetireFiles,
    Transaction,
    file_ids,
)
from tests.format.merge.test_patch import FILES, NUMBERS, RUNS, SCHEMAS, TEXT, exactly, nulls
from tests.format.state.test_attach_files import A, B, attach, begun, row, with_rows
from tests.format.state.test_fold import add, born, new_file, with_holes

KEPT = st.builds(
    Attached,
    message=NUMBERS,
    property=TEXT,
    source=st.none() | TEXT,
    sha256=st.text("0123456789abcdef", min_size=64, max_size=64),
    bytes=NUMBERS,
    media_type=TEXT,
    copy=st.integers(1, 999_999_999),
)
UNREAD = st.builds(
    Attached,
    message=NUMBERS,
    property=TEXT,
    source=st.none() | TEXT,
    sha256=st.none(),
    bytes=st.none(),
    media_type=st.none(),
    copy=st.just(1),
)
WITH_ROWS = st.builds(lambda file, rows: with_rows(file, *rows), FILES, st.lists(KEPT | UNREAD, max_size=3))
SEVERAL = st.lists(WITH_ROWS, max_size=4, unique_by=lambda file: file.id).map(tuple)


@st.composite
def replacements(draw: st.DrawFn) -> ReplaceFiles:
    files = draw(SEVERAL)
    cut = draw(st.integers(0, len(files)))
    kind = draw(st.sampled_from([ReplaceFiles, EraseFiles]))
    return kind(old=tuple(file.id for file in files[:cut]), new=files[cut:])


CHANGES: st.SearchStrategy[Change] = (
    st.builds(AttachFiles, files=SEVERAL, schemas=st.dictionaries(TEXT, SCHEMAS, max_size=2), run=st.none() | RUNS)
    | replacements()
)


@given(st.builds(Transaction, id=TEXT, at=TEXT, change=CHANGES))
def test_a_transaction_comes_back_from_its_entry_and_its_record_as_it_was(transaction: Transaction) -> None:
    entry = decode(encode(to_entry(transaction)), MergeEntry)
    back = to_transaction(entry)
    assert (back, type(back.change)) == (transaction, type(transaction.change))
    assert exactly(back) == exactly(transaction)
    logged = decode(encode(transaction), Transaction)
    assert (logged, type(logged.change)) == (transaction, type(transaction.change))


@given(CHANGES)
def test_no_null_of_a_row_removes_anything(change: Change) -> None:
    """A merge patch takes no array apart."""
    patch = decode(encode(to_entry(Transaction(id="t", at="", change=change))), MergeEntry).patch
    gone = set(change.old) if isinstance(change, ReplaceFiles) else set()
    name = "erased" if isinstance(change, EraseFiles) else "files"
    assert {tuple(way) for way in nulls(patch)} == {(name, id) for id in gone}


ATTACHED = attach(with_rows(new_file("a"), row(0, A), row(1, None)), new_file("b"))


def test_what_the_patch_looks_like() -> None:
    assert isinstance(ATTACHED, AttachFiles)
    run = Run(id="r", writer="w", started="2026")
    change = msgspec.structs.replace(ATTACHED, run=run)
    patch = json.loads(encode(to_entry(Transaction(id="t", at="", change=change))))["patch"]
    assert list(patch) == ["attached", "schemas", "runs"]
    assert patch["attached"]["a"]["attached"] == [
        [0, "photo", "0.jpg", A, 5, "image/jpeg", 1],
        [1, "photo", "1.jpg", None, None, None, 1],
    ]
    assert "attached" not in patch["attached"]["b"]
    assert file_ids(change) == ("a", "b")


def test_it_is_no_addition_to_a_program_that_knows_only_that() -> None:
    """The names that such a program looks for first are not in the patch, so that it refuses the entry."""
    patch = to_entry(Transaction(id="t", at="", change=ATTACHED)).patch
    assert not {"files", "retired", "collected", "expired", "erased", "closed", "manifest"} & patch.keys()
    plain = AddFiles(files=ATTACHED.files, schemas=ATTACHED.schemas)
    back = [to_transaction(to_entry(Transaction(id="t", at="", change=change))).change for change in (ATTACHED, plain)]
    assert [type(change) for change in back] == [AttachFiles, AddFiles]


@pytest.mark.parametrize("since", [msgspec.UNSET, {A: "2026-01-01T00:00:00Z"}, {A: "x", B: "\ud800"}])
def test_a_collection_says_which_retirement_it_looked_at(since: Any) -> None:
    change = CollectFiles(shown=(A,), deleted=(B,), forgotten=("f",), since=since)
    transaction = Transaction(id="t", at="", change=change)
    patch = json.loads(encode(to_entry(transaction)))["patch"]
    assert set(patch) == {"collected"} | ({"since"} if since else set())
    assert to_transaction(decode(encode(to_entry(transaction)), MergeEntry)) == transaction
    assert decode(encode(transaction), Transaction) == transaction
    assert (b"since" in encode(transaction)) is bool(since)


FILE: dict[str, Any] = {name: value for name, value in msgspec.to_builtins(new_file("a")).items() if name != "id"}


@pytest.mark.parametrize(
    ("patch", "order"),
    [
        ({"attached": []}, []),
        ({"attached": None}, []),
        ({"attached": {"a": FILE}}, ["a"]),
        ({"attached": {"a": FILE}, "schemas": {}}, []),
        ({"attached": {"a": FILE}, "schemas": {}}, ["b"]),
        ({"attached": {"a": None}, "schemas": {}}, ["a"]),
        ({"attached": {"a": {"path": "p"}}, "schemas": {}}, ["a"]),
        ({"attached": {"a": FILE}, "schemas": []}, ["a"]),
        ({"attached": {"a": FILE}, "schemas": {}, "runs": {}}, ["a"]),
        ({"attached": {"a": {**FILE, "attached": {}}}, "schemas": {}}, ["a"]),
        ({"attached": {"a": {**FILE, "attached": [[0, "p", None, "../x", 5, "t", 1]]}}, "schemas": {}}, ["a"]),
        ({"collected": {}, "since": []}, []),
        ({"collected": {}, "since": {"a": 1}}, []),
        ({"files": {"a": {**FILE, "attached": [[0, "p", None, None, 5, "t", 1]]}}, "schemas": {}}, ["a"]),
    ],
    ids=lambda value: json.dumps(value)[:50],
)
def test_what_is_no_transaction_is_refused(patch: dict[str, Any], order: list[str]) -> None:
    read = decode(json.dumps({"id": "t", "at": "", "patch": patch, "order": order}).encode(), MergeEntry)
    with pytest.raises(msgspec.DecodeError):
        to_transaction(read)


def test_the_fold_of_a_translated_log_is_the_fold_of_the_log() -> None:
    def hollow(id: str, messages: int, holes: int, *rows: Attached) -> NewFile:
        return with_rows(with_holes(new_file(id, messages), holes), *rows)

    changes: list[Change] = [
        attach(with_rows(new_file("a", 3), row(0, A), row(2, B)), with_rows(new_file("b", 2), row(1, B))),
        add(new_file("c")),
        EraseFiles(old=("a",), new=(hollow("a1", 3, 1, row(2, B)),)),
        CollectFiles(shown=("a", A)),
        ReplaceFiles(
            old=("a1", "b"),
            new=(hollow("ab", 5, 1, row(2, B), msgspec.structs.replace(row(4, B), source="1.jpg")),),
        ),
        attach(with_rows(new_file("d", 1), row(0, A))),
        RetireFiles(files=(("7" * 64, f"_files/77/{'7' * 64}"),)),
        ExpireFiles(before=5, lineage="l"),
        CollectFiles(shown=(B,)),
        CollectFiles(deleted=(B,)),
        attach(with_rows(new_file("e", 1), row(0, B))),
        Rebase(manifest=begun()),
    ]
    straight = translated = born()
    refused = []
    for number, change in enumerate(changes):
        transaction = Transaction(id=f"t{number}", at="2026", change=change)
        there_and_back = to_transaction(decode(encode(to_entry(transaction)), MergeEntry))
        after, other = fold.apply(straight, transaction), fold.apply(translated, there_and_back)
        assert after == other
        if isinstance(after, additions.Conflict) or isinstance(other, additions.Conflict):
            refused.append(number)
            continue
        straight, translated = after, other
    assert refused == [10, 11]
    assert [gone.id for gone in straight.retired if gone.deleted] == [B]

"""Any sequence of changes to a stream with attached files: no object is lost sight of, and rows stay with their
records."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.state.additions import Conflict
from singerlake.format.state.attached_objects import objects_in
from singerlake.format.state.fold import apply
from singerlake.format.state.transactions import (
    Change,
    CollectFiles,
    EraseFiles,
    ExpireFiles,
    Rebase,
    ReplaceFiles,
    RetireFiles,
    Transaction,
)
from singerlake.upkeep.checks import check_state
from tests.format.state.test_attach_files import NAMES, attach, attached, row, with_rows
from tests.format.state.test_fold import born, check_log, new_file, with_holes

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 9), st.lists(st.integers(0, 20), max_size=4)),
        st.tuples(st.just("replace"), st.integers(0, 11), st.integers(1, 4)),
        st.tuples(st.just("erase"), st.integers(0, 11), st.integers(0, 7)),
        st.tuples(st.just("expire"), st.integers(0, 30), st.none()),
        st.tuples(st.just("retire"), st.integers(0, 6), st.none()),
        st.tuples(st.just("collect"), st.integers(0, 63), st.integers(0, 2)),
        st.tuples(st.just("rebase"), st.integers(0, 5), st.none()),
        st.tuples(st.just("again"), st.integers(0, 30), st.none()),
    ),
    max_size=30,
)


class Run:
    """Changes as writers and maintenance make them, of what they find in ``manifest``."""

    def __init__(self) -> None:
        self.manifest = born()
        self.history: list[Change] = []
        self.gone: set[int] = set()
        """Offsets of erased records."""
        self.holes: dict[str, set[int]] = {}
        """What a file was to erase, by its id."""

    def change(self, kind: str, first: int, second: object) -> Change | None:
        if kind == "again":
            # A state that is put in place again takes everything back.
            again = [change for change in self.history if not isinstance(change, Rebase)]
            return again[first % len(again)] if again else None
        if kind == "add":
            assert isinstance(second, list)
            count = 1 + first % 3
            rows = sorted((each % count, NAMES[each % 7], 1 + each // 14) for each in second)
            made = with_rows(new_file(f"f{first}", count), *(row(*each) for each in rows))
            return attach(made)
        if kind == "retire":
            return RetireFiles(files=((NAMES[first], f"_files/{NAMES[first][:2]}/{NAMES[first]}"),))
        if kind == "expire":
            return ExpireFiles(before=first, lineage="l")
        if kind == "rebase":
            return Rebase(manifest=self.manifest)
        assert isinstance(second, int)
        if kind == "collect":
            chosen = [file for place, file in enumerate(self.manifest.retired) if first >> place % 6 & 1]
            return (
                CollectFiles(shown=tuple(file.id for file in chosen)),
                CollectFiles(deleted=tuple(file.id for file in chosen if file.shown)),
                CollectFiles(forgotten=tuple(file.id for file in chosen if file.deleted)),
            )[second]
        if not self.manifest.files:
            return None
        start = first % len(self.manifest.files)
        if kind == "replace":
            run = self.manifest.files[start : start + second]
            rows = [
                msgspec.structs.replace(each, message=each.message + file.offset - run[0].offset)
                for file in run
                for each in file.attached
            ]
            made = with_rows(new_file(f"m{len(self.history)}", sum(file.messages for file in run)), *rows)
            made = with_holes(made, sum(file.erased for file in run))
            return ReplaceFiles(old=tuple(file.id for file in run), new=(made,))
        file = self.manifest.files[start]
        wanted = {at for at in range(file.messages) if second >> at & 1}
        holes = {at for at in range(file.messages) if file.offset + at in self.gone} | wanted
        made = with_holes(new_file(f"m{len(self.history)}", file.messages), len(holes))
        rows = [each for each in file.attached if each.message not in holes]
        self.holes[made.id] = {file.offset + at for at in holes}
        return EraseFiles(old=(file.id,), new=(with_rows(made, *rows),))


@given(STEPS)
def test_an_object_is_listed_or_retired_or_forgotten_and_rows_stay_with_their_offsets(
    steps: list[tuple[str, int, object]],
) -> None:
    run = Run()
    rows: dict[int, list[tuple[str, int]]] = {}
    known: set[str] = set()
    for kind, first, second in steps:
        change = run.change(kind, first, second)
        if change is None:
            continue
        before = run.manifest
        run.history.append(change)
        outcome = apply(before, Transaction(id=str(len(run.history)), at="2026", change=change))
        going = {gone.id for gone in before.retired if gone.deleted}
        if isinstance(outcome, Conflict):
            continue
        run.manifest = outcome
        listed, retired = set(objects_in(outcome.files)), set(attached(outcome))
        assert not listed & retired
        assert not listed & going
        known |= listed
        if isinstance(change, RetireFiles):
            known |= retired
        if isinstance(change, CollectFiles):
            known -= going & set(change.forgotten)
        assert listed | retired == known
        if isinstance(change, EraseFiles) and outcome.files != before.files:
            (new,) = (file for file in outcome.files if file.id not in before.by_id)
            run.gone |= run.holes[new.id]
        for file in outcome.files:
            for offset in range(file.offset, file.end):
                told = [
                    (each.sha256 or "", each.copy) for each in file.attached if file.offset + each.message == offset
                ]
                assert told == ([] if offset in run.gone else rows.setdefault(offset, told))
        check_log(outcome)
        assert check_state(outcome, "k") == ()

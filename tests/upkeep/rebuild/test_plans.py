"""What a repair plans is the same where files, the state before and the state after are on disk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.state import fold
from singerlake.format.state.files.data_file import DataFile
from singerlake.format.state.files.file_list import FileList
from singerlake.format.state.model import Manifest, Retired
from singerlake.upkeep.rebuild import on_disk as lists
from singerlake.upkeep.rebuild.on_disk import FormerFiles, FoundFiles, Listing
from singerlake.upkeep.rebuild.rebuild import rebuilt
from singerlake.upkeep.rebuild.repair import Repair, plan_anew, plan_repair
from singerlake.upkeep.rebuild.survey import Survey
from singerlake.upkeep.scanned_file import ScannedFile
from tests.upkeep.rebuild.sizes import keep_little
from tests.upkeep.rebuild.test_found_files import IDS, found, sets_of_files

BIRTH = fold.empty(tap="t", stream="s", store="lockfile", lineage="l", created="c", transaction_id="x")
ANEW = msgspec.structs.replace(BIRTH, lineage="m")


def survey_of(files: Sequence[ScannedFile]) -> Survey:
    return Survey(FoundFiles(files), ())


@st.composite
def states(draw: st.DrawFn, files: list[ScannedFile]) -> Manifest:
    """A state that lists some of them, some others, and some otherwise."""
    listed = [file for file in files if draw(st.booleans())]
    others = [found(f"gone/{n}", draw(st.sampled_from(IDS)), 1, n) for n in range(draw(st.integers(0, 3)))]
    state = rebuilt(survey_of([*listed, *others]), BIRTH).manifest
    changed = tuple(
        msgspec.structs.replace(file, path=f"moved/{file.path}") if draw(st.booleans()) else file
        for file in state.files
    )
    retired = draw(st.sets(st.sampled_from(IDS), max_size=2)).difference(state.by_id)
    gone = [*state.retired, *(Retired(id=id, path=f"{id}.gz", by=None, since="c") for id in sorted(retired))]
    known = {"versions": {}, "schemas": {}} if draw(st.booleans()) else {}
    return msgspec.structs.replace(state, files=changed, retired=gone, **known)


def in_segments(state: Manifest, tail: int) -> Manifest:
    """The same with segments of two files each, as many as leave ``tail`` files."""
    made = Listing()
    source = made._source
    cut = max(len(state.files) - tail, 0) // 2 * 2
    parts = [source.write(state.files[at : at + 2]) for at in range(0, cut, 2)]
    return msgspec.structs.replace(state, files=FileList(state.files[cut:], parts=parts, source=source))


def told(plan: Repair) -> dict[str, Any]:
    shown = {name: getattr(plan.after, name) for name in ("versions", "schemas", "format", "next_offset", "lineage")}
    return shown | {
        "files": list(plan.after.files),
        "retired": list(plan.after.retired),
        "findings": plan.findings,
        "difference": plan.difference,
        "totals": plan.totals,
        "change": type(plan.change),
        "needed": plan.needed,
    }


@given(st.data())
def test_a_plan_is_the_same_as_in_memory(data: st.DataObject) -> None:
    files = data.draw(sets_of_files())
    before = data.draw(states(files))
    tail = data.draw(st.integers(0, 3))
    adopt = data.draw(st.booleans())
    plans = [
        lambda state: plan_repair(state, survey_of(files), adopt=adopt, at="now"),
        lambda state: plan_anew(state, survey_of(files), ANEW),
        lambda _: plan_anew(None, survey_of(files), ANEW),
    ]
    expected = [told(plan(before)) for plan in plans]
    with pytest.MonkeyPatch.context() as patched:
        keep_little(patched)
        for state in (before, in_segments(before, tail)):
            assert [told(plan(state)) for plan in plans] == expected


def listed(offset: int, **more: Any) -> DataFile:
    facts: dict[str, Any] = {"version": "v", "messages": 1, "records": 1, "bytes": 1, "raw_bytes": 1, "sha256": ""}
    return DataFile(id=f"{offset:016d}", path="p", members=((0, 1),), first="", last="", offset=offset, **facts | more)


def test_a_segment_in_which_nothing_changes_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_little(monkeypatch)
    files = [found(f"{n}", f"i{n}", 0, n + 1) for n in range(7)]
    state = in_segments(rebuilt(survey_of(files), BIRTH).manifest, tail=1)
    moved = [*files[:3], msgspec.structs.replace(files[3], path="elsewhere"), *files[4:]]
    after = plan_repair(state, survey_of(moved), adopt=False, at="now").after.files
    assert [part in state.files.parts for part in after.parts] == [True, False, True]
    assert after.tail is state.files.tail
    assert [file.path for file in after] == ["0", "1", "2", "elsewhere", "4", "5", "6"]
    assert plan_repair(state, survey_of(files), adopt=False, at="now").after is state


def test_a_long_list_is_on_disk_and_read_in_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists, "HELD", 3)
    monkeypatch.setattr(lists, "SEGMENT", 2)
    made = Listing()
    every = [listed(n, erased=int(n == 5)) for n in range(10)]
    for file in every:
        made.append(file)
    files = made.files()
    assert len(files.segments) == 5 - len(files.tail) // 2
    assert (list(files), files[7], files.with_ids(["0000000000000003"]).keys()) == (
        every, every[7], {"0000000000000003"},
    )  # fmt: skip
    files.check()


@pytest.mark.parametrize("on_disk", [False, True])
def test_an_id_that_is_listed_twice_is_met_as_one(monkeypatch: pytest.MonkeyPatch, on_disk: bool) -> None:
    twice = [listed(0), msgspec.structs.replace(listed(0), offset=1), listed(2), listed(3)]
    files = FileList(twice)
    if on_disk:
        keep_little(monkeypatch)
        source = Listing()._source
        files = FileList(twice[2:], parts=[source.write(twice[:2])], source=source)
    former = FormerFiles(files)
    assert [former.meet(file.id) for file in (twice[0], twice[3])] == [twice[1], twice[3]]
    assert former.meet("none") is None
    assert list(former.unmet) == [twice[2]]

"""What a drop of a stream takes: decided from its state and a listing alone."""

from __future__ import annotations

import msgspec
import pytest

from singerlake.format import layout
from singerlake.format.state.append_only import AppendOnlyList
from singerlake.format.state.model import Manifest, Retired, Run
from singerlake.storage.port import Entry
from singerlake.upkeep.drop import Drop, plan_drop
from tests.fakes import START
from tests.format.state.test_fold import add as added
from tests.format.state.test_fold import born, done, new_file
from tests.upkeep.vacuum.test_stores import PREFIX

RUN = Run(id="r", writer="w", started="2026", updated="2026-02-01T00:00:00Z", status="finished", kind="drop")


def entry(path: str, size: int = 7) -> Entry:
    return Entry(key=PREFIX + path, size=size, last_modified=START, etag="e")


def data_name(id: str) -> str:
    return layout.file_path("s", "v", START, START, id)


def planned(before: Manifest, *paths: str) -> Drop:
    return plan_drop(before, [entry(path) for path in paths], run=RUN, lineage="new")


def retired(manifest: Manifest | None) -> dict[str, tuple[str, str | None]]:
    assert manifest is not None
    return {file.id: (file.path, file.by) for file in manifest.retired}


def is_empty(manifest: Manifest) -> bool:
    return not (manifest.versions or manifest.schemas or manifest.files)


def test_all_that_was_listed_is_retired_under_a_new_lineage() -> None:
    before = done(done(born(), added(new_file("a", 3))), added(new_file("b", 2, schema=1)))
    plan = planned(before)
    assert (plan.files.files, plan.files.bytes, plan.records) == (2, 50, 5)
    after = plan.after
    assert after is not None
    assert is_empty(after)
    assert (after.lineage, after.next_offset, after.created) == ("new", 0, before.created)
    assert after.transaction == before.transaction
    assert retired(after) == {"a": ("x/a", None), "b": ("x/b", None)}
    assert [(run.id, run.files, run.bytes) for run in after.runs] == [("r", 2, 50)]


def test_how_far_a_collection_was_stays_and_what_replaced_a_file_is_named_no_more() -> None:
    before = done(born(), added(new_file("a")))
    gone = Retired(id="o", path="x/o", by="a", since="2025", shown="2025-02", deleted="2025-03")
    after = planned(msgspec.structs.replace(before, retired=AppendOnlyList([gone]))).after
    assert after is not None
    assert after.retired_by_id["o"] == msgspec.structs.replace(gone, by=None)
    assert after.retired_by_id["a"].since == RUN.updated


def test_data_files_that_nothing_knows_are_retired_by_the_id_in_their_name() -> None:
    name = data_name("0123456789abcdef")
    plan = planned(done(born(), added(new_file("a"))), name)
    assert (plan.unlisted.files, plan.unlisted.bytes, plan.left) == (1, 7, ())
    assert plan.keys == (PREFIX + name,)
    assert retired(plan.after)["0123456789abcdef"] == (name, None)
    assert plan.after is not None
    assert (plan.after.runs[0].files, plan.after.runs[0].bytes) == (2, 37)


@pytest.mark.parametrize(
    "paths",
    [
        # Two of one id: which of them a retired entry means could not be told.
        (data_name("0123456789abcdef"), data_name("0123456789abcdef").replace("v/", "w/")),
        ("v/nothing-like-an-id.singer.gz",),
        ("notes.txt",),
        ("v/deep/er/notes.txt", "a.json"),
    ],
)
def test_what_is_no_data_file_or_has_no_id_of_its_own_is_left(paths: tuple[str, ...]) -> None:
    plan = planned(done(born(), added(new_file("a"))), *paths)
    assert plan.left == tuple(PREFIX + path for path in paths)
    assert (plan.unlisted.files, plan.keys) == (0, ())
    assert list(retired(plan.after)) == ["a"]


def test_a_copy_of_a_listed_file_is_left() -> None:
    id = "0123456789abcdef"
    file = msgspec.structs.replace(new_file(id), path=data_name(id))
    copy = data_name(id).replace("v/", "w/")
    plan = planned(done(born(), added(file)), data_name(id), copy)
    assert (plan.keys, plan.left) == ((PREFIX + data_name(id),), (PREFIX + copy,))
    assert retired(plan.after) == {id: (data_name(id), None)}


def test_the_streams_own_objects_are_neither_dropped_nor_left() -> None:
    own = (layout.MANIFEST, layout.LOCK, f"v/{layout.LOCK}", f"{layout.LOG}/x.json")
    plan = planned(done(born(), added(new_file("a"))), *own)
    assert (plan.keys, plan.left) == ((), ())


def test_of_an_empty_stream_there_is_nothing_to_drop() -> None:
    assert planned(born()).after is None
    gone = Retired(id="o", path="x/o", by=None, since="2025")
    assert planned(msgspec.structs.replace(born(), retired=AppendOnlyList([gone]))).after is None

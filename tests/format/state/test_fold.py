"""The fold from transactions to a manifest: offsets are gap-free and never reassigned, retries are harmless."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from singerlake.format.schema_hash import full_hash, schema_hash
from singerlake.format.state import fold
from singerlake.format.state.additions import Conflict
from singerlake.format.state.files.data_file import DataFile, NewFile
from singerlake.format.state.fold import apply
from singerlake.format.state.manifest import from_json, to_json
from singerlake.format.state.model import Manifest, Run, StreamSchema
from singerlake.format.state.transactions import (
    AddFiles,
    Change,
    Close,
    CollectFiles,
    EraseFiles,
    Rebase,
    RecordRun,
    ReplaceFiles,
    RetireFiles,
    Transaction,
)

SCHEMAS = [{"type": "object", "properties": {name: {}}} for name in "abc"]


def born() -> Manifest:
    return fold.empty(tap="t", stream="s", store="lockfile", lineage="l", created="2026", transaction_id="birth")


def new_file(file_id: str, messages: int = 3, schema: int = 0, version: str | None = None) -> NewFile:
    return NewFile(
        id=file_id,
        path=f"x/{file_id}",
        version=version or schema_hash(SCHEMAS[schema]),
        messages=messages,
        records=messages,
        bytes=10 * messages,
        raw_bytes=100 * messages,
        sha256="0" * 64,
        first="2026-01-01T00:00:00.000000Z",
        last="2026-01-01T00:00:00.000000Z",
        members=((0, messages),),
    )


def with_holes(file: NewFile, holes: int) -> NewFile:
    """``file`` with so many of its records erased."""
    return msgspec.structs.replace(file, records=file.messages - holes, erased=holes)


def data_file(file_id: str, messages: int, offset: int) -> DataFile:
    return DataFile(**msgspec.structs.asdict(new_file(file_id, messages)), offset=offset)


def add(*files: NewFile, run: Run | None = None) -> AddFiles:
    schemas = {schema_hash(schema): StreamSchema(schema=schema) for schema in SCHEMAS}
    return AddFiles(files=files, schemas=schemas, run=run)


def done(manifest: Manifest, change: Change) -> Manifest:
    after = apply(manifest, Transaction(id=f"t{manifest.transaction.number}", at="2026-02", change=change))
    assert isinstance(after, Manifest), after
    return after


def refused(manifest: Manifest, change: Change) -> str:
    outcome = apply(manifest, Transaction(id="x", at="2026-02", change=change))
    assert isinstance(outcome, Conflict)
    return outcome.reason


def check_log(manifest: Manifest) -> None:
    offset = manifest.floor
    for file in manifest.files:
        assert file.offset == offset
        offset = file.end
    assert manifest.next_offset == offset
    assert len({file.id for file in manifest.files}) == len(manifest.files)
    assert {file.version for file in manifest.files} <= set(manifest.versions)
    assert set(manifest.versions) == set(manifest.schemas)
    assert from_json(to_json(manifest), key="k") == manifest


def test_files_get_the_next_offsets_in_their_order() -> None:
    manifest = done(done(born(), add(new_file("a", 3), new_file("b", 2))), add(new_file("c", 5)))
    assert [(file.id, file.offset) for file in manifest.files] == [("a", 0), ("b", 3), ("c", 5)]
    assert manifest.next_offset == 10
    assert manifest.transaction.number == 2
    check_log(manifest)


def test_a_version_gets_its_label_and_first_offset_when_it_first_appears() -> None:
    manifest = born()
    for file_id, schema in (("a", 0), ("b", 1), ("c", 0), ("d", 2)):
        manifest = done(manifest, add(new_file(file_id, 4, schema)))
    hashes = [schema_hash(schema) for schema in SCHEMAS]
    assert manifest.versions == {hashes[0]: "v1", hashes[1]: "v2", hashes[2]: "v3"}
    assert [manifest.schemas[version].first_offset for version in hashes] == [0, 4, 12]


def test_a_version_without_a_committed_file_does_not_exist() -> None:
    assert list(done(born(), add(new_file("a"))).versions) == [schema_hash(SCHEMAS[0])]


def test_a_file_that_is_listed_already_is_skipped() -> None:
    once = done(born(), add(new_file("a"), new_file("b")))
    twice = done(once, add(new_file("b"), new_file("c")))
    assert [file.id for file in twice.files] == ["a", "b", "c"]
    check_log(twice)


def test_a_second_schema_under_one_short_hash_is_listed_under_all_ten_characters() -> None:
    short = schema_hash(SCHEMAS[0])
    manifest = done(born(), add(new_file("a")))
    collided = msgspec.structs.replace(
        manifest, schemas={short: msgspec.structs.replace(manifest.schemas[short], schema={"other": 1})}
    )
    after = done(collided, add(new_file("b")))
    assert after.files[1].version == full_hash(SCHEMAS[0])
    assert after.files[1].path == new_file("b").path
    assert after.versions == {short: "v1", full_hash(SCHEMAS[0]): "v2"}


def test_the_latest_schema_message_of_a_version_is_kept_with_its_first_offset() -> None:
    version = schema_hash(SCHEMAS[0])
    manifest = done(born(), add(new_file("a")))
    later = AddFiles(files=(new_file("b"),), schemas={version: StreamSchema(schema=SCHEMAS[0], key_properties=("a",))})
    after = done(manifest, later)
    assert after.schemas[version].key_properties == ("a",)
    assert after.schemas[version].first_offset == 0


def test_a_file_of_an_unknown_schema_is_a_conflict() -> None:
    assert "no schema" in refused(born(), add(new_file("a", version="unknown")))


def replaced() -> Manifest:
    manifest = done(born(), add(new_file("a", 3), new_file("b", 2), new_file("c", 4)))
    return done(manifest, ReplaceFiles(old=("a", "b"), new=(new_file("ab", 5),)))


def test_replacing_keeps_messages_under_their_offsets_and_retires_the_old() -> None:
    manifest = replaced()
    assert [(file.id, file.offset, file.messages) for file in manifest.files] == [("ab", 0, 5), ("c", 5, 4)]
    assert [(gone.id, gone.by) for gone in manifest.retired] == [("a", "ab"), ("b", "ab")]
    check_log(manifest)


def test_replacing_twice_changes_nothing_more() -> None:
    manifest = replaced()
    assert done(manifest, ReplaceFiles(old=("a", "b"), new=(new_file("ab", 5),))).files == manifest.files


def test_adding_what_was_replaced_is_skipped() -> None:
    manifest = replaced()
    assert done(manifest, add(new_file("a", 3))).files == manifest.files


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (ReplaceFiles(old=("a", "x"), new=(new_file("n", 5),)), "not listed"),
        (ReplaceFiles(old=("a", "c"), new=(new_file("n", 7),)), "not contiguous"),
        (ReplaceFiles(old=("b", "a"), new=(new_file("n", 5),)), "not contiguous"),
        (ReplaceFiles(old=("a", "b"), new=(new_file("n", 4),)), "same number of messages"),
        (ReplaceFiles(old=("a", "b"), new=(new_file("n", 5, 1),)), "not of one version"),
        (ReplaceFiles(old=("a", "b"), new=(new_file("c", 4), new_file("n", 1))), "listed already"),
        (ReplaceFiles(old=(), new=(new_file("n", 1),)), "not listed"),
        (RetireFiles(files=(("a", "x/a"),)), "are listed"),
    ],
)
def test_a_change_that_does_not_fit_is_a_conflict(change: Change, reason: str) -> None:
    manifest = done(born(), add(new_file("a", 3), new_file("b", 2), new_file("c", 4)))
    assert reason in refused(manifest, change)


def test_a_file_retired_as_an_orphan_cannot_be_added_any_more() -> None:
    manifest = done(born(), RetireFiles(files=(("a", "x/a"),)))
    assert "orphan" in refused(manifest, add(new_file("a")))


def test_a_retired_file_is_shown_then_deleted_then_forgotten_each_once() -> None:
    manifest = done(born(), add(new_file("a", 3)))
    manifest = done(manifest, ReplaceFiles(old=("a",), new=(new_file("b", 3),)))
    manifest = done(manifest, RetireFiles(files=(("o", "x/o"),)))

    def stepped(manifest: Manifest, at: str, change: CollectFiles) -> Manifest:
        after = apply(manifest, Transaction(id=at, at=at, change=change))
        assert isinstance(after, Manifest)
        return after

    assert "not shown" in refused(manifest, CollectFiles(deleted=("a",)))
    assert "not deleted" in refused(manifest, CollectFiles(forgotten=("a",)))
    manifest = stepped(manifest, "1", CollectFiles(shown=("a", "unknown")))
    manifest = stepped(manifest, "2", CollectFiles(shown=("a", "o")))
    assert [(file.id, file.shown) for file in manifest.retired] == [("a", "1"), ("o", "2")]
    assert "not deleted" in refused(manifest, CollectFiles(forgotten=("a",)))
    manifest = stepped(manifest, "3", CollectFiles(deleted=("a",)))
    manifest = stepped(manifest, "4", CollectFiles(deleted=("a", "o")))
    assert [(file.shown, file.deleted) for file in manifest.retired] == [("1", "3"), ("2", "4")]
    assert "orphan" in refused(manifest, add(new_file("o")))
    manifest = stepped(manifest, "5", CollectFiles(forgotten=("a", "unknown")))
    assert [file.id for file in manifest.retired] == ["o"]
    assert stepped(manifest, "6", CollectFiles(forgotten=("a",))).retired == manifest.retired


@pytest.mark.parametrize("step", ["shown", "deleted", "forgotten"])
def test_a_listed_file_is_never_collected(step: str) -> None:
    manifest = done(born(), add(new_file("a")))
    assert "are listed: a" in refused(manifest, CollectFiles(**{step: ("a",)}))


def test_no_state_of_the_lineage_lists_a_file_that_is_being_deleted() -> None:
    first = done(born(), add(new_file("a", 3)))
    manifest = done(done(first, ReplaceFiles(old=("a",), new=(new_file("b", 3),))), CollectFiles(shown=("a",)))
    deleted = done(manifest, CollectFiles(deleted=("a",)))
    assert done(manifest, Rebase(manifest=first)).files == first.files
    assert "being deleted: a" in refused(deleted, Rebase(manifest=first))
    anew = Rebase(manifest=msgspec.structs.replace(first, lineage="other"))
    assert done(deleted, anew).files == first.files


def test_a_path_that_is_listed_is_neither_retired_nor_deleted() -> None:
    manifest = done(born(), add(new_file("a", 3)))
    (listed,) = manifest.files
    assert "are listed" in refused(manifest, RetireFiles(files=(("o", listed.path),)))
    gone = done(manifest, RetireFiles(files=(("o", "x/o"),)))
    gone = msgspec.structs.replace(
        gone, retired=[msgspec.structs.replace(gone.retired[0], path=listed.path, shown="2026")]
    )
    assert "path is listed" in refused(gone, CollectFiles(deleted=("o",)))


def test_a_closed_stream_takes_nothing_more() -> None:
    closed = done(born(), Close(successor="log"))
    outcome = apply(closed, Transaction(id="x", at="y", change=add(new_file("a"))))
    assert isinstance(outcome, Conflict)
    assert outcome.successor == "log"


def test_a_rebase_brings_a_new_lineage_and_goes_on_counting_transactions() -> None:
    manifest = done(born(), add(new_file("a"), new_file("b")))
    base = msgspec.structs.replace(done(born(), add(new_file("b"))), lineage="other")
    after = done(manifest, Rebase(manifest=base))
    assert (after.lineage, after.next_offset, after.transaction.number) == ("other", 3, 2)


def test_a_rebase_never_takes_offsets_back_within_a_lineage() -> None:
    manifest = done(born(), add(new_file("a"), new_file("b")))
    assert "lowers the next offset" in refused(manifest, Rebase(manifest=born()))
    foreign = msgspec.structs.replace(born(), stream="another")
    assert "another stream" in refused(manifest, Rebase(manifest=foreign))


def test_a_run_counts_the_files_that_were_really_added() -> None:
    run = Run(id="r", writer="w", started="2026", updated="2026-01")
    manifest = done(born(), add(new_file("a", 3), run=run))
    manifest = done(manifest, add(new_file("a", 3), new_file("b", 2), run=run))
    manifest = done(manifest, RecordRun(run=msgspec.structs.replace(run, status="done", updated="2026-02")))
    (kept,) = manifest.runs
    assert (kept.files, kept.messages, kept.bytes, kept.status, kept.updated) == (2, 5, 50, "done", "2026-02")


def test_only_the_last_runs_are_kept() -> None:
    manifest = born()
    for number in range(60):
        manifest = done(manifest, RecordRun(run=Run(id=str(number), writer="w", started="2026")))
    assert [run.id for run in manifest.runs] == [str(number) for number in range(10, 60)]


def test_captures_and_maintenance_push_none_of_the_other_out() -> None:
    manifest = born()
    for number in range(60):
        for kind in ("capture", "vacuum"):
            run = Run(id=f"{kind}{number}", writer="w", started="2026", files=2, bytes=20, kind=kind)
            manifest = done(manifest, RecordRun(run=run))
    for kind in ("capture", "vacuum"):
        kept = [run for run in manifest.runs if run.kind == kind]
        assert [run.id for run in kept] == [f"{kind}{number}" for number in range(10, 60)]
        assert {(run.files, run.bytes) for run in kept} == {(0, 0) if kind == "capture" else (2, 20)}
    assert [run.kind for run in manifest.runs[-2:]] == ["capture", "vacuum"]


def test_a_run_of_no_kind_is_a_capture() -> None:
    run = msgspec.json.decode(b'{"id": "r", "writer": "w", "started": "2026"}', type=Run)
    assert (run.kind, run.captures) == ("capture", True)


CHANGES = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.lists(st.integers(0, 12), min_size=1, max_size=4), st.integers(0, 2)),
        st.tuples(st.just("replace"), st.integers(0, 11), st.integers(1, 4)),
        st.tuples(st.just("erase"), st.integers(0, 11), st.integers(0, 3)),
        st.tuples(st.just("retire"), st.lists(st.integers(0, 12), min_size=1, max_size=2), st.none()),
        st.tuples(st.just("collect"), st.integers(0, 7), st.none()),
        st.tuples(st.just("again"), st.integers(0, 30), st.none()),
    ),
    max_size=25,
)


@given(CHANGES)
def test_no_sequence_of_changes_and_retries_moves_a_message_or_leaves_a_gap(steps: list[tuple]) -> None:
    manifest = born()
    history: list[Change] = []
    holder: dict[int, str] = {}
    origin: dict[str, tuple[str, ...]] = {}

    for kind, first, second in steps:
        if kind == "again" and history:
            change = history[first % len(history)]
        elif kind == "add":
            change = add(*(new_file(f"f{n}", 1 + n % 3, second) for n in dict.fromkeys(first)))
        elif kind == "replace" and manifest.files:
            start = first % len(manifest.files)
            run = list(manifest.files[start : start + second])
            run = [file for file in run if file.version == run[0].version]
            joined = new_file(f"m{len(history)}", sum(file.messages for file in run), version=run[0].version)
            holes = sum(file.erased for file in run)
            change = ReplaceFiles(old=tuple(file.id for file in run), new=(with_holes(joined, holes),))
        elif kind == "erase" and manifest.files:
            file = manifest.files[first % len(manifest.files)]
            again = new_file(f"m{len(history)}", file.messages, version=file.version)
            holes = min(file.erased + second, file.messages)
            change = EraseFiles(old=(file.id,), new=(with_holes(again, holes),))
        elif kind == "retire":
            change = RetireFiles(files=tuple((f"f{n}", f"x/f{n}") for n in first))
        elif kind == "collect":
            chosen = [file for place, file in enumerate(manifest.retired) if first >> place % 3 & 1]
            change = CollectFiles(
                shown=tuple(file.id for file in chosen if file.shown is None),
                deleted=tuple(file.id for file in chosen if file.shown and not file.deleted),
                forgotten=tuple(file.id for file in chosen if file.deleted),
            )
        else:
            continue
        history.append(change)
        outcome = apply(manifest, Transaction(id=str(len(history)), at="2026", change=change))
        if isinstance(outcome, Conflict):
            continue
        if isinstance(change, ReplaceFiles):
            for file in change.new:
                origin.setdefault(
                    file.id, tuple(original for old in change.old for original in origin.get(old, (old,)))
                )
        assert outcome.next_offset >= manifest.next_offset
        assert outcome.transaction.number == manifest.transaction.number + 1
        assert sum(file.erased for file in outcome.files) >= sum(file.erased for file in manifest.files)
        manifest = outcome
        check_log(manifest)
        for file in manifest.files:
            first_source = origin.get(file.id, (file.id,))[0]
            assert holder.setdefault(file.offset, first_source) == first_source

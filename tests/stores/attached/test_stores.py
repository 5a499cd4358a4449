"""What every manifest store makes of attached files: the same state as the fold, for whoever comes, wherever it is."""

from __future__ import annotations

import random

import msgspec
import pytest

from singerlake.format import layout
from singerlake.format.state.additions import Conflict
from singerlake.format.state.attached import Attached
from singerlake.format.state.attached_objects import objects_in
from singerlake.format.state.features import features_of
from singerlake.format.state.fold import apply
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import (
    Change,
    CollectFiles,
    ExpireFiles,
    Rebase,
    RetireFiles,
    Transaction,
)
from singerlake.stores.port import Loaded
from singerlake.stores.segments.stored import read_manifest
from tests.format.state.test_attach_files import NAMES, A, B, attach, attached, erasing, row, with_rows
from tests.format.state.test_attach_sequences import Run
from tests.format.state.test_fold import add, new_file
from tests.stores.postgres.place import PostgresPlace, consistent
from tests.stores.stores import Place

KEY = layout.manifest_key("t", "s")


def begun(place: Place) -> Loaded:
    return place.committed(
        place.born(),
        attach(with_rows(new_file("a", 3), row(0, A), row(2, B)), with_rows(new_file("b", 2), row(1, B))),
        add(new_file("c", 4)),
    )


def test_rows_are_listed_once_however_often_they_are_committed(place: Place) -> None:
    base = place.born()
    change = attach(with_rows(new_file("a", 3), row(0, A), row(1, None)), new_file("b"))
    for _ in range(3):
        place.committed(base, change)
        state = place.state()
        assert [(file.id, file.offset, file.attached) for file in state.files] == [
            ("a", 0, (row(0, A), row(1, None))),
            ("b", 3, ()),
        ]
        assert features_of(state) == ("attached",)
    caught = place.store().catch_up(base)
    assert caught is not None
    assert caught.manifest == state
    place.store().publish(caught, run_ended=True)
    stored = place.storage.get(KEY)
    assert stored is not None
    assert stored.body.startswith(b'{"format":1,"features":["attached"],')
    assert read_manifest(stored.body, key=KEY, storage=place.storage) == state


def test_an_object_is_retired_listed_again_and_retired_again(place: Place) -> None:
    base = begun(place)
    gone = place.committed(base, erasing(base.manifest, "a", "a1", 1, row(2, B)))
    assert attached(place.state()) == {A: ""}
    shown = place.committed(gone, CollectFiles(shown=(A, "a")))
    again = place.committed(shown, attach(with_rows(new_file("d", 1), row(0, A))))
    assert attached(place.state()) == {}
    last = place.committed(again, erasing(again.manifest, "d", "d1", 1))
    assert attached(place.state()) == {A: ""}
    for behind in (base, gone, shown, again):
        caught = place.store().catch_up(behind)
        assert caught is not None
        assert caught.manifest == last.manifest == place.state()


def test_an_object_whose_deletion_is_agreed_on_is_refused_to_whoever_is_behind(place: Place) -> None:
    base = begun(place)
    gone = place.committed(base, erasing(base.manifest, "a", "a1", 1, row(2, B)))
    place.committed(gone, CollectFiles(shown=(A,)), CollectFiles(deleted=(A,)))
    for behind in (base, gone):
        outcome = place.commit(behind, attach(with_rows(new_file("d", 1), row(0, A))))
        assert isinstance(outcome, Conflict)
        assert "being deleted" in outcome.reason
        refused = place.commit(behind, Rebase(manifest=base.manifest))
        assert isinstance(refused, Conflict)
    other = place.committed(base, attach(with_rows(new_file("e", 1), row(0, A, 2))))
    assert set(objects_in(other.manifest.files)) == {f"{A}.2", B}
    forgotten = place.committed(other, CollectFiles(forgotten=(A,)))
    assert attached(forgotten.manifest) == attached(place.state()) == {}
    after = place.committed(base, attach(with_rows(new_file("f", 1), row(0, A))))
    assert set(objects_in(after.manifest.files)) == {A, f"{A}.2", B}


def test_a_writer_and_a_collector_that_come_at_once_exclude_each_other(place: Place) -> None:
    """Both begin from the state in which the object is retired and shown."""
    base = begun(place)
    gone = place.committed(base, erasing(base.manifest, "a", "a1", 1, row(2, B)))
    shown = place.committed(gone, CollectFiles(shown=(A,)))
    using = attach(with_rows(new_file("d", 1), row(0, A)))
    first = place.commit(shown, using)
    assert isinstance(first, Loaded)
    second = place.commit(shown, CollectFiles(deleted=(A,)))
    assert isinstance(second, Loaded)
    assert (attached(place.state()), A in objects_in(place.state().files)) == ({}, True)


def test_a_collector_that_looked_at_an_earlier_retirement_changes_nothing(place: Place) -> None:
    """The object was shown, listed again, and retired again before it commits: readers may know it since."""
    base = begun(place)
    gone = place.committed(base, erasing(base.manifest, "a", "a1", 1, row(2, B)))
    (old,) = (file for file in gone.manifest.retired if file.id == A)
    again = place.committed(gone, attach(with_rows(new_file("d", 1), row(0, A))))
    erased = Transaction(id=place.ids(), at="2026-03-01T00:00:00Z", change=erasing(again.manifest, "d", "d1", 1))
    store = place.store()
    outcome = store.commit(again, erased)
    assert not isinstance(outcome, Conflict)
    late = {"since": {A: old.since}}
    place.committed(gone, CollectFiles(shown=("a", A), **late))
    state = place.state()
    assert [(file.id, file.shown is not None) for file in state.retired] == [("a", True), ("d", False), (A, False)]
    newest = place.loaded()
    own = {"since": {A: state.retired_by_id[A].since}}
    place.committed(newest, CollectFiles(shown=(A,), **own))
    place.committed(newest, CollectFiles(deleted=("a", A), **late))
    assert attached(place.state()) == {A: "shown"}
    place.committed(newest, CollectFiles(deleted=(A,), **own))
    place.committed(newest, CollectFiles(forgotten=("a", A), **late))
    assert [file.id for file in place.state().retired] == ["d", A]
    place.committed(newest, CollectFiles(forgotten=(A,), **own))
    assert [file.id for file in place.state().retired] == ["d"]


def test_many_rows_with_any_text_come_back_as_they_were(place: Place) -> None:
    texts = ["\ud800", "\udfff é", "\x00", "null", '"\\', "日" * 30, ""]
    rows = [
        Attached(number // 10, texts[number % 7], texts[number % 5] if number % 3 else None, A, number, "image/jpeg", 1)
        for number in range(4000)
    ]
    change = attach(with_rows(new_file("a", 400), *rows), with_rows(new_file("b", 1), row(0, None)))
    base = place.born()
    place.committed(base, change)
    assert place.state().files[0].attached == tuple(rows)
    caught = place.store().catch_up(base)
    assert caught is not None
    assert caught.manifest == place.state()
    place.store().trim(keep=0, dry_run=False)
    assert place.state().files[0].attached == tuple(rows)


@pytest.mark.crossed("place", "seed")
@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_gives_the_state_of_the_fold(place: Place, seed: int) -> None:
    chance = random.Random(seed)
    base = place.born()
    bases = [base]
    run = Run()
    for number in range(40):
        run.manifest = base.manifest
        change = a_change(run, chance, base.manifest.lineage or "")
        if change is None:
            continue
        run.history.append(change)
        after = apply(base.manifest, Transaction(id="x", at="2026-02-01T00:00:00Z", change=change))
        # What a collector looked at is what it begins from.
        behind = base if isinstance(change, CollectFiles) else chance.choice(bases)
        outcome = place.commit(behind, change)
        # What was done in an earlier state is done.
        assert isinstance(outcome, Loaded) or isinstance(after, Conflict)
        newest = place.store().catch_up(bases[0])
        assert newest is not None
        expected = after if isinstance(after, Manifest) else base.manifest
        base = newest
        bases = [*bases[-3:], base]
        for name in ("files", "retired", "next_offset", "format"):
            assert getattr(base.manifest, name) == getattr(expected, name)
        if number % 5 == 0:
            assert place.state() == base.manifest
        if chance.random() < 0.1:
            place.store().trim(keep=1, dry_run=False)
    assert place.state() == base.manifest
    assert not set(objects_in(base.manifest.files)) & {file.id for file in base.manifest.retired}


def a_change(run: Run, chance: random.Random, lineage: str) -> Change | None:
    kind = chance.choice(
        ["add", "add", "add", "replace", "erase", "erase", "expire", "retire", *["collect"] * 3, "again"]
    )
    first = chance.randrange(30)
    if kind == "add":
        second: object = [chance.randrange(21) for _ in range(chance.randrange(4))]
        first = chance.randrange(200)
    elif kind == "replace":
        second = chance.randrange(1, 4)
    elif kind == "erase":
        second = chance.randrange(8)
    elif kind == "collect":
        first, second = chance.randrange(64), chance.randrange(3)
    else:
        first, second = (chance.randrange(7) if kind == "retire" else first), None
    change = run.change(kind, first, second)
    if isinstance(change, ExpireFiles):
        return msgspec.structs.replace(change, lineage=lineage, before=min(change.before, run.manifest.next_offset))
    return change


@pytest.fixture
def tables(postgres_schema: tuple[str, str]) -> PostgresPlace:
    return PostgresPlace(*postgres_schema)


def test_postgres_tables_agree_when_a_retired_object_is_listed_again(tables: PostgresPlace) -> None:
    base = tables.committed(
        tables.born(),
        attach(with_rows(new_file("a", 3), row(0, A), row(2, B))),
        RetireFiles(files=((NAMES[6], f"_files/{NAMES[6][:2]}/{NAMES[6]}"), ("o", "x/o"))),
    )
    gone = tables.committed(base, erasing(base.manifest, "a", "a1", 3))
    assert set(attached(consistent(tables))) == {A, B, NAMES[6]}
    again = tables.committed(
        gone, attach(with_rows(new_file("d", 1), row(0, A)), with_rows(new_file("e", 1), row(0, B)))
    )
    assert consistent(tables) == again.manifest
    assert set(attached(again.manifest)) == {NAMES[6]}
    retired = tables.query("SELECT file_id FROM files WHERE updated <> 'infinity' AND table_id = %s ORDER BY 1")
    assert {id for (id,) in retired} == {"a", "o", NAMES[6]}
    expiry = ExpireFiles(before=4, lineage=base.manifest.lineage or "")
    last = tables.committed(again, erasing(again.manifest, "d", "d1", 1), expiry)
    assert consistent(tables) == last.manifest
    assert set(attached(last.manifest)) == {A, NAMES[6]}
    for step in (CollectFiles(shown=(A,)), CollectFiles(deleted=(A,)), CollectFiles(forgotten=(A,))):
        last = tables.committed(last, step)
        assert consistent(tables) == last.manifest
    assert tables.store().catch_up(base) == last


def test_postgres_tables_agree_after_a_rebase_that_lists_a_retired_object_again(tables: PostgresPlace) -> None:
    base = tables.committed(tables.born(), attach(with_rows(new_file("a", 3), row(0, A))))
    gone = tables.committed(base, erasing(base.manifest, "a", "a1", 1))
    back = msgspec.structs.replace(gone.manifest, files=base.manifest.files, retired=gone.manifest.retired[1:])
    after = tables.committed(gone, Rebase(manifest=back))
    assert consistent(tables) == after.manifest
    assert attached(after.manifest) == {}

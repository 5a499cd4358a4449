"""Two-stage collection in PostgreSQL: the cases of Sleeper's suite for files without reference."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import msgspec
import pytest

from singerlake.clock import SystemClock
from singerlake.format.fold import Conflict
from singerlake.format.transactions import Rebase, ReplaceFiles, RetireFiles
from singerlake.manifests import postgres_collection
from singerlake.manifests.port import Loaded, Outdated
from tests.format.test_fold import add, new_file
from tests.manifests.postgres_place import PostgresPlace, consistent, place, session

__all__ = ["place"]
HOUR = timedelta(hours=1)


def age(place: PostgresPlace, id: str, hours: float) -> None:
    """Let a file have lost its reference so long ago."""
    place.change(
        "UPDATE files SET updated = updated - %s * interval '1 hour' WHERE file_id = %s AND table_id = %s", hours, id
    )


def found(place: PostgresPlace, older_than: timedelta = HOUR) -> list[str]:
    return [file.id for file in place.store().unreferenced(older_than)]


def replaced(place: PostgresPlace) -> Loaded:
    """Files ``a`` and ``b`` gave way to ``ab``; ``c`` is listed beside it."""
    base = place.committed(place.born(), add(new_file("a", 3), new_file("b", 2), new_file("c", 1)))
    return place.committed(base, ReplaceFiles(old=("a", "b"), new=(new_file("ab", 5),)))


def test_a_file_is_found_once_it_was_without_reference_for_long_enough(place: PostgresPlace) -> None:
    replaced(place)
    assert found(place) == []
    age(place, "a", 0.9)
    age(place, "b", 1.1)
    assert found(place) == ["b"]
    assert found(place, timedelta(0)) == ["b", "a"]
    (b,) = place.store().unreferenced(HOUR)
    assert (b.path, b.by) == ("x/b", "ab")


def test_an_orphan_is_found_like_any_other(place: PostgresPlace) -> None:
    place.committed(place.born(), RetireFiles(files=(("o", "x/o"),)))
    age(place, "o", 2)
    (orphan,) = place.store().unreferenced(HOUR)
    assert (orphan.id, orphan.path, orphan.by) == ("o", "x/o", None)


def test_a_listed_file_is_never_found_however_old(place: PostgresPlace) -> None:
    replaced(place)
    assert place.query("SELECT file_id FROM files WHERE updated = 'infinity' AND table_id = %s ORDER BY 1") == [
        ("ab",),
        ("c",),
    ]
    age(place, "ab", 10_000)
    assert found(place, timedelta(0)) == ["a", "b"]


def test_time_is_the_database_s(place: PostgresPlace) -> None:
    class Wrong(SystemClock):
        def now(self):  # type: ignore[no-untyped-def]
            return super().now() + timedelta(days=3650)

    place = place.but(clock=Wrong())
    replaced(place)
    assert found(place) == []


def test_what_is_forgotten_is_gone_from_the_state(place: PostgresPlace) -> None:
    before = replaced(place)
    assert place.store().forget(["a", "unknown"]) == 1
    after = consistent(place)
    assert [file.id for file in after.retired] == ["b"]
    assert after.files == before.manifest.files
    assert after.transaction.number == before.manifest.transaction.number + 1
    assert place.query("SELECT kind FROM transactions WHERE table_id = %s ORDER BY number DESC LIMIT 1") == [
        ("forget_files",)
    ]
    assert place.store().forget(["a", "unknown"]) == 0
    assert place.store().forget([]) == 0
    assert consistent(place) == after


def test_nothing_is_forgotten_where_one_is_listed(place: PostgresPlace) -> None:
    before = replaced(place)
    outcome = place.store().forget(["a", "c"])
    assert isinstance(outcome, Conflict)
    assert "c" in outcome.reason
    assert consistent(place) == before.manifest


def test_a_reference_alone_keeps_a_file(place: PostgresPlace) -> None:
    replaced(place)
    place.change("UPDATE files SET updated = '2020-01-01' WHERE file_id = 'c' AND table_id = %s")
    assert isinstance(place.store().forget(["c"]), Conflict)
    assert "c" in [file.id for file in place.state().files]


def test_a_stream_that_is_not_there_has_nothing_to_forget(place: PostgresPlace) -> None:
    assert place.store().forget(["a"]) == 0
    assert found(place) == []


def test_a_writer_behind_a_forgotten_file_reads_the_state_anew(place: PostgresPlace) -> None:
    base = replaced(place)
    place.store().forget(["a"])
    assert place.store().commit(base, place.transaction(add(new_file("d")))) == Outdated()
    caught = place.store().catch_up(base)
    assert caught is not None
    assert caught.manifest == place.state()
    after = place.committed(base, add(new_file("d")))
    assert after.manifest == consistent(place)
    assert [file.id for file in after.manifest.files] == ["ab", "c", "d"]


def test_what_is_found_may_be_forgotten_at_once(place: PostgresPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_collection, "_PAGE", 3)
    ids = [f"o{number}" for number in range(10)]
    place.committed(place.born(), RetireFiles(files=tuple((id, "x") for id in ids)))
    for id in ids:
        age(place, id, 2)
    given = []
    for file in place.store().unreferenced(HOUR):
        assert place.store().forget([file.id]) == 1
        given.append(file.id)
    assert sorted(given) == ids
    assert len(consistent(place).retired) == 0


def test_no_connection_waits_for_whoever_iterates(place: PostgresPlace) -> None:
    replaced(place)
    files = place.store().unreferenced(timedelta(0))
    next(files)
    with session(place.url, place.schema) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'singerlake' AND state LIKE 'idle in%'"
        ).fetchone()
    assert row == (0,)


def test_a_file_that_is_listed_again_by_a_new_state_is_kept(place: PostgresPlace) -> None:
    first = place.committed(place.born(), add(new_file("a", 3), new_file("b", 2)))
    second = place.committed(first, ReplaceFiles(old=("a", "b"), new=(new_file("ab", 5),)))
    back = msgspec.structs.replace(first.manifest, lineage="restored")
    place.committed(second, Rebase(manifest=back))
    age(place, "a", 5)
    assert found(place) == []
    assert isinstance(place.store().forget(["a"]), Conflict)
    assert [file.id for file in consistent(place).files] == ["a", "b"]


def test_whoever_comes_first_forgetting_and_listing_never_both_happen(place: PostgresPlace) -> None:
    place = place.but(clock=SystemClock())
    for round in range(8):
        stream = place.another().but(clock=SystemClock())
        first = stream.committed(stream.born(), add(new_file("a", 3)))
        second = stream.committed(first, ReplaceFiles(old=("a",), new=(new_file("b", 3),)))
        back = msgspec.structs.replace(first.manifest, lineage=f"restored {round}")
        acts: list[Callable[[], object]] = [
            lambda stream=stream: stream.store().forget(["a"]),  # type: ignore[misc]
            lambda stream=stream, second=second, back=back: stream.commit(second, Rebase(manifest=back)),  # type: ignore[misc]
        ]
        with ThreadPoolExecutor(2) as pool:
            outcomes = [future.result() for future in [pool.submit(act) for act in acts]]
        assert isinstance(outcomes[1], Loaded)
        assert outcomes[0] == 1 or isinstance(outcomes[0], Conflict)
        assert [file.id for file in consistent(stream).files] == ["a"]

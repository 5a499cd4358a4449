"""A stream's writers, readers and trimmers between each other's requests, in all orders."""

from __future__ import annotations

import pytest

from singerlake.format.state import fold
from singerlake.format.state.additions import Conflict
from singerlake.format.state.transactions import ReplaceFiles
from singerlake.stores.port import Loaded, Pending
from tests.format.state.test_fold import new_file
from tests.stores.merge.merging import LOG, Crew, Member, consistent, old_log
from tests.stores.merge.orders import Act, Race, every_order


def settle(member: Member, pending: Pending) -> Act:
    """Ask until it is known; others go on meanwhile."""

    def act() -> None:
        for _ in range(20):
            if member.settle(pending) is not None:
                return
        raise AssertionError("never settled")

    return act


@pytest.mark.thorough
def test_two_settlers_agree_on_one_order() -> None:
    def make() -> Race:
        crew = Crew()
        crew.born()
        ada, bob = crew.member(), crew.member()
        pendings = [(writer, writer.commit(name)) for writer, name in ((ada, "a"), (bob, "b"), (ada, "a2"))]
        crew.wait()

        def after() -> None:
            consistent(crew, {"a", "b", "a2"})
            assert crew.listed().index("a") < crew.listed().index("a2")
            for writer, pending in pendings:
                outcome = writer.settle(pending)
                assert isinstance(outcome, Loaded)
                assert outcome.manifest == crew.state()

        return Race(crew, [settle(*pendings[0]), settle(*pendings[1])], after)

    assert every_order(make, switches=3) > 500


@pytest.mark.thorough
def test_three_settlers_agree_too() -> None:
    def make() -> Race:
        crew = Crew()
        crew.born()
        writers = [crew.member() for _ in range(3)]
        acts = [settle(writer, writer.commit(f"f{place}")) for place, writer in enumerate(writers)]
        crew.wait()
        return Race(crew, acts, lambda: consistent(crew, {"f0", "f1", "f2"}))

    assert every_order(make, switches=2) > 500


def test_a_commit_between_a_settler_s_requests_is_not_lost() -> None:
    def make() -> Race:
        crew = Crew()
        crew.born()
        ada, bob = crew.member(), crew.member()
        pending = ada.commit("a")
        bob.known()
        crew.wait()
        late: list[Pending] = []

        def after() -> None:
            crew.wait()
            bob.settled(late[0])
            consistent(crew, {"a", "b"})
            assert crew.listed() == ["a", "b"]

        return Race(crew, [settle(ada, pending), lambda: late.append(bob.commit("b"))], after)

    assert every_order(make, switches=2) > 20


def test_of_two_replacements_settled_by_both_writers_at_once_exactly_one_is_void() -> None:
    def make() -> Race:
        crew = Crew()
        crew.born()
        ada, bob = crew.member(), crew.member()
        ada.settled(ada.commit("a"))
        one = ada.commit(ReplaceFiles(old=("a",), new=(new_file("a1"),)))
        crew.wait(0.01)
        other = bob.commit(ReplaceFiles(old=("a",), new=(new_file("a2"),)))
        crew.wait()

        def after() -> None:
            consistent(crew, {"a1"})
            assert isinstance(ada.settle(one), Loaded)
            assert isinstance(bob.settle(other), Conflict)

        return Race(crew, [settle(ada, one), settle(bob, other)], after)

    assert every_order(make, switches=2) > 50


@pytest.mark.thorough
def test_a_trim_takes_nothing_from_a_settler() -> None:
    def make() -> Race:
        crew = Crew()
        crew.born()
        files = old_log(crew, 4)
        ada = crew.member()
        pending = ada.commit("a")
        crew.wait()

        def after() -> None:
            assert sorted(crew.listed()) == sorted(files | {"a"})
            assert isinstance(ada.settle(pending), Loaded)

        return Race(crew, [settle(ada, pending), lambda: crew.member().store.trim(keep=1, dry_run=False)], after)

    assert every_order(make, switches=2) > 100


@pytest.mark.thorough
def test_a_reader_behind_a_trim_sees_what_everybody_sees() -> None:
    def make() -> Race:
        crew = Crew()
        crew.born()
        behind = crew.member()
        behind.known()
        files = old_log(crew, 4)
        seen: list[Loaded | None] = []

        def after() -> None:
            (found,) = seen
            assert found is not None
            assert found.manifest == crew.state()
            assert sorted(crew.listed()) == sorted(files)

        return Race(
            crew,
            [
                lambda: seen.append(behind.store.catch_up(behind.known())),
                lambda: crew.member().store.trim(keep=1, dry_run=False),
            ],
            after,
        )

    assert every_order(make, switches=2) > 200


def test_two_trims_at_once_leave_the_stream_whole() -> None:
    def make() -> Race:
        crew = Crew()
        crew.born()
        files = old_log(crew, 4)
        late = crew.member()
        late.commit("late")
        crew.wait(100)
        crew.storage._objects.pop(f"{LOG}last_change")
        trims: list[Act] = [lambda keep=keep: crew.member().store.trim(keep=keep, dry_run=False) for keep in (0, 2)]

        def after() -> None:
            assert sorted(crew.listed()) == sorted(files | {"late"})
            late.settled(late.held[0])
            assert crew.listed().count("late") == 1

        return Race(crew, trims, after)

    assert every_order(make, switches=1) > 50


def test_two_births_at_once_are_one() -> None:
    def make() -> Race:
        crew = Crew()
        born: list[Loaded] = []

        def birth(name: str) -> Act:
            first = fold.empty(tap="t", stream="s", store="merge", lineage=name, created="2026", transaction_id=name)
            return lambda: born.append(crew.member().store.create(first))

        def after() -> None:
            one, other = born
            assert one.manifest == other.manifest == crew.state()

        return Race(crew, [birth("x"), birth("y")], after)

    assert every_order(make, switches=2) > 50

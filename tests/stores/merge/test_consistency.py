"""Writers with wrong clocks, lost answers, deaths and trims at any time: everybody sees one log, in which every
writer's commits are in its order, what was stored is there once, and nothing ever moves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

from hypothesis import event, given, settings
from hypothesis import strategies as st

from singerlake.errors import RetryableError, StorageUnavailableError, UnknownOutcomeError
from singerlake.format.state import fold
from singerlake.format.state.model import Manifest
from singerlake.format.state.transactions import ReplaceFiles
from singerlake.stores.merge.records import placed
from singerlake.stores.merge.settings import MergeSettings
from singerlake.stores.port import Loaded
from tests.format.state.test_fold import new_file
from tests.storage.memory import MemoryStorage, Step
from tests.stores.merge.merging import Crew, Mixed, Seconds

WRITERS = 4
SKEWS = st.sampled_from([0.0, 0.0, 0.9, -0.9, 1.9, -1.9, 4.9, -4.9, 61.0, -61.0, 3600.0, -3600.0])
PAUSES = st.sampled_from([0.0, 0.0, 0.001, 0.01, 0.3, 1.0, 4.0, 11.0, 11.0, 40.0])
WRITER = st.integers(0, WRITERS - 1)
STEPS = st.one_of(
    st.tuples(st.just("commit"), WRITER, PAUSES),
    st.tuples(st.just("commit"), WRITER, PAUSES),
    st.tuples(st.just("settle"), WRITER, st.sampled_from([1.0, 5.0, 11.0, 11.0, 40.0])),
    st.tuples(st.just("settle"), WRITER, st.just(11.0)),
    st.tuples(st.just("join"), WRITER, PAUSES),
    st.tuples(st.just("trim"), st.integers(0, 2), PAUSES),
    st.tuples(st.just("publish"), WRITER, PAUSES),
    st.tuples(st.just("set"), WRITER, SKEWS),
    st.tuples(st.just("die"), WRITER, SKEWS),
)
FAULTS = st.lists(st.tuples(st.integers(0, 40), st.booleans(), st.booleans()), max_size=4)
"""After so many requests, before or after its effect, without an answer or with a refusal."""


class World:
    """What happened, and what everybody was told of it."""

    def __init__(self, crew: Crew, skews: list[float]) -> None:
        self.crew = crew
        self.members = [crew.member(skew) for skew in skews]
        self.lives = list(self.members)
        self.stored: dict[int, list[str]] = {}
        self.place: dict[str, int] = {}
        self.told_last: dict[int, int] = {}
        self.joins = 0

    def told(self, manifest: Manifest) -> None:
        """Somebody was given a state: of each file it says what every other state says."""
        for file in manifest.files:
            assert self.place.setdefault(file.id, file.offset) == file.offset, f"{file.id} moved"

    def commit(self, who: int, name: str) -> None:
        member = self.members[who]
        member.commit(name)
        self.stored.setdefault(self.lives.index(member), []).append(name)

    def dies(self, who: int, skew: float) -> None:
        self.members[who] = self.crew.member(skew)
        self.lives.append(self.members[who])

    def settle(self, who: int) -> None:
        member = self.members[who]
        for pending in list(member.held):
            outcome = member.settle(pending)
            if outcome is None:
                return
            member.held.remove(pending)
            if isinstance(outcome, Loaded):
                number = outcome.manifest.transaction.number
                assert number >= self.told_last.get(id(member), 0), "a writer was taken back"
                self.told_last[id(member)] = number
                self.told(outcome.manifest)

    def join(self, who: int) -> None:
        """Put the last two files one knows of into one."""
        member = self.members[who]
        files = member.known().manifest.files[-2:]
        self.joins += 1
        if len(files) == 2:
            joined = new_file(f"j{self.joins}", files[0].messages + files[1].messages)
            member.commit(ReplaceFiles(old=(files[0].id, files[1].id), new=(joined,)))

    def publish(self, who: int) -> None:
        member = self.members[who]
        member.store.publish(member.known(), run_ended=True)


def faulty(crew: Crew, faults: list[tuple[int, bool, bool]]) -> Callable[[Step], None]:
    """Every request takes some time; some are not answered."""
    made = 0
    left = sorted(faults)

    def hook(step: Step) -> None:
        nonlocal made
        if not step.done:
            crew.clock.seconds += 0.02
            made += 1
        if left and made >= left[0][0] and step.done == left[0][1]:
            _, done, unknown = left.pop(0)
            if step.operation not in ("put", "delete"):
                raise StorageUnavailableError("no answer", key=step.key)
            raise (UnknownOutcomeError if unknown or done else StorageUnavailableError)("no answer", key=step.key)

    return hook


@settings(report_multiple_bugs=False)
@given(
    st.sampled_from([MemoryStorage, Seconds, Mixed]),
    st.lists(SKEWS, min_size=WRITERS, max_size=WRITERS),
    st.lists(STEPS, min_size=5, max_size=60),
    FAULTS,
    st.sampled_from([MergeSettings(), MergeSettings(stale=5), MergeSettings(entries=2, touch=0)]),
)
def test_whatever_happens_there_is_one_log(
    kind: type[MemoryStorage],
    skews: list[float],
    steps: list[tuple[str, int, float]],
    faults: list[tuple[int, bool, bool]],
    times: MergeSettings,
) -> None:
    crew = Crew(kind, settings=times)
    crew.born()
    world = World(crew, skews)
    crew.storage.hook = faulty(crew, faults)
    for number, (what, who, value) in enumerate(steps):
        if what == "set":
            world.members[who].clock.skew = value
            continue
        if what == "die":
            world.dies(who, value)
            continue
        crew.wait(value)
        with suppress(RetryableError, UnknownOutcomeError):
            if what == "commit":
                world.commit(who, f"w{who}n{number}")
            elif what == "trim":
                crew.member().store.trim(keep=who, dry_run=False)
            else:
                getattr(world, what)(who)
    crew.storage.hook = lambda step: None
    end(world)
    event(f"records: {min(crew.state().transaction.number, 5)}")


def end(world: World) -> None:
    """When all has come to rest: who is alive learns of every commit, and what the dead had stored has its place."""
    crew = world.crew
    crew.wait(60)
    for who in range(WRITERS):
        world.settle(who)
        assert not world.members[who].held
    world.publish(0)
    state = crew.state()
    world.told(state)
    listed = {file.id for file in state.files}
    replaced = {gone.id for gone in state.retired if gone.by is not None}
    for names in world.stored.values():
        assert set(names) <= listed | replaced, "a stored commit is lost"
        places = [world.place[name] for name in names if name in world.place]
        assert places == sorted(places), "one writer's commits are not in its order"
    refold(crew, state)


def refold(crew: Crew, state: Manifest) -> None:
    """The records continue one another, and all of them, folded by hand, come to what everybody sees."""
    records = list(crew.records())
    floor = crew.floor()
    assert records == [] or records[-1].number == state.transaction.number
    records = [record for record in records if record.number > floor]
    for one, other in pairwise(records):
        assert (other.number, other.after) == (one.number + 1, one.id)
        assert one.until <= other.until
    keys = [held.key for record in records for held in record.entries]
    assert len(set(keys)) == len(keys)
    if records and records[0].number == 1:
        folded = fold.empty(
            tap="t", stream="s", store="merge", lineage="l", created="2026", transaction_id=records[0].after
        )
        for record in records:
            assert [held.key for held in record.entries] == sorted((held.key for held in record.entries), reverse=True)
            for held in record.entries:
                after = placed(folded, held)
                folded = after if isinstance(after, Manifest) else folded
        assert folded.files == state.files


def test_a_dead_writer_s_commits_keep_their_order_too() -> None:
    crew = Crew()
    crew.born()
    world = World(crew, [4.9, -4.9, 3600.0, -3600.0])
    for number in range(5):
        for who in range(WRITERS):
            world.commit(who, f"w{who}n{number}")
            crew.wait(0.05)
    for who in range(WRITERS):
        world.dies(who, 0)
    end(world)
    assert len(crew.listed()) == 20

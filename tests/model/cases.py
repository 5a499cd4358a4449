"""What is explored: within which bounds every promise is kept, and which rule it is that keeps each."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.model.case import Case
from tests.model.collecting.attached import Attached
from tests.model.explorer import Explored, explore
from tests.model.lockfile_store import Lockfile
from tests.model.log.store import LogStore
from tests.model.runs.atomic import AtomicRuns
from tests.model.segments.cases import FAULTY_SEGMENTS, KEPT_SEGMENTS
from tests.model.settle.records import Settle
from tests.model.settle.times import SettleTimes

_TWO_COLLECTORS: dict[str, Any] = {"files": (1, 1), "rounds": (4, 2)}
_READ: dict[str, Any] = {"files": (1, 1), "rounds": (4,), "readers": 1}
_BOTH = ((0, 1), (0, 1))
_ONE_BEHIND = ((0,), (0, 1))

KEPT = (
    Case("lockfile: 3 writers of 1 commit, 3 faults of the network", Lockfile(writers=3, faults=3)),
    Case("lockfile: 2 writers of 2 commits, 4 faults of the network", Lockfile(commits=2, faults=4)),
    Case("log: 2 writers give birth, 1 trim", LogStore(writers=2, trims=1, born=False)),
    Case("log: 3 writers, 2 appends without an answer, publishing", LogStore(writers=3, lost=2, publishes=True)),
    Case("log: 3 writers, 1 trim", LogStore(writers=3, trims=1)),
    Case("log: 2 writers, 2 trims", LogStore(writers=2, trims=2)),
    Case("log: 2 writers of 2 commits, 1 trim", LogStore(writers=2, commits=2, trims=1)),
    Case("log: the same, trims keep 1 transaction", LogStore(writers=2, commits=2, trims=1, keep=1)),
    Case(
        "log: 2 writers, 1 trim, 1 append without an answer, manifest.json lost once",
        LogStore(writers=2, trims=1, lost=1, removals=1),
    ),
    Case("log: 1 writer of 2 commits, 1 reader, 2 trims", LogStore(writers=1, commits=2, readers=1, trims=2)),
    Case(
        "log: 1 writer of 2 commits, 1 reader of 2 reads, 1 trim",
        LogStore(writers=1, commits=2, readers=1, reads=2, trims=1),
    ),
    Case("log: 1 writer of 2 commits, 2 trimmers", LogStore(writers=1, commits=2, trimmers=2, trims=1)),
    Case("log: 2 writers, 1 reader, another log in its place", LogStore(writers=2, readers=1, reads=2, replaced=3)),
    Case(
        "log: trims that do not publish, 2 writers of 2 commits",
        LogStore(writers=2, commits=2, trims=1, trim_order=("snapshot", "raise", "remove")),
    ),
    Case("merge: 3 entries, 2 settlers of 2 records", Settle(entries=3, rounds=(2, 2))),
    Case("merge: 3 entries, 2 settlers of 2 and 1 records, 2 trims", Settle(entries=3, rounds=(2, 1), trims=2)),
    Case("merge: 2 entries, 3 settlers, 1 trim", Settle(entries=2, rounds=(1, 1, 1), trims=1)),
    Case(
        "merge: 2 entries and 1 stale, 2 settlers, 1 trim, bucket restored once",
        Settle(entries=3, stale=1, rounds=(1, 1), trims=1, restores=1),
    ),
    Case("merge: times, create-if-absent, lag 0, nothing lost", SettleTimes(lag=0, if_absent=True, in_order=False)),
    Case("merge: times, create-if-absent, lag 7, and in order", SettleTimes(lag=7, if_absent=True)),
    Case("merge: times alone, stale 2, longest 1, lag 7", SettleTimes(lag=7)),
    Case("merge: times alone, stale 2, longest 1, lag 4", SettleTimes(lag=4)),
    Case(
        "merge: times alone, stale 2, longest 2, lag 7, whole ticks",
        SettleTimes(lag=7, longest=2, resolution=1),
    ),
    Case("runs: 2 runs, 2 attempts each", AtomicRuns(runs=_BOTH)),
    Case(
        "runs: 2 runs, 1 request without an answer, nobody loses patience",
        AtomicRuns(runs=_BOTH, lost=1, patience=False),
    ),
    Case("runs: 2 runs of 1 attempt, 1 reader", AtomicRuns(runs=_BOTH, attempts=1, readers=1)),
    Case(
        "runs: 2 runs of 1 attempt over 3 streams, 1 reader",
        AtomicRuns(streams=3, runs=((0, 1), (1, 2)), clocks=(1, 0), attempts=1, readers=1),
    ),
    Case("runs: 1 run of 1 attempt, 2 plain writers, 1 reader", AtomicRuns(plain=(0, 1), attempts=1, readers=1)),
    Case(
        "runs: 1 run of 1 attempt, 1 plain writer, 1 reader, 1 request without an answer",
        AtomicRuns(plain=(0,), attempts=1, readers=1, lost=1),
    ),
    Case(
        "runs: 2 runs, 1 of them over 1 stream, 1 reader, listings by the page",
        AtomicRuns(runs=_ONE_BEHIND, clocks=(0, 1), readers=1, pages=True),
    ),
    Case("attached: 2 writers, 2 collectors of 4 and 2 rounds", Attached(**_TWO_COLLECTORS)),
    Case("attached: a writer of 2 files and one of 1, 1 collector of 5 rounds", Attached(files=(2, 1), rounds=(5,))),
    Case("attached: 2 writers, 1 collector of 4 rounds, 1 reader", Attached(**_READ)),
    Case(
        "attached: 3 writers, 1 collector of 4 rounds, 2 erasures", Attached(files=(1, 1, 1), rounds=(4,), erasures=2)
    ),
    *KEPT_SEGMENTS,
)
"""Explored to the last state."""

FAULTY = (
    Case(
        "lockfile: a writer that was fooled looks, writes without a condition and reads back",
        Lockfile(fooled=1),
        r"o0 b1 was shown, and now it is o0 a1",
    ),
    Case(
        "log: no look at the floor after an append",
        LogStore(writers=2, trims=1, floor_after_append=False),
        r"sees o0 a1 where o0 b1 was shown",
    ),
    Case(
        "log: no look at the floor after reading the tail",
        LogStore(writers=1, readers=1, trims=1, floor_after_tail=False),
        r"sees o0 after o0 a1 was shown",
    ),
    Case(
        "log: the floor raised before the snapshot",
        LogStore(writers=1, trims=1, trim_order=("raise", "snapshot", "publish", "remove")),
        r"the stream cannot be read",
    ),
    Case(
        "log: records deleted before the floor is raised",
        LogStore(writers=2, trims=1, trim_order=("snapshot", "publish", "remove", "raise")),
        r"sees o0 a1 where o0 b1 was shown",
    ),
    Case(
        "log: records do not name the one before",
        LogStore(writers=1, readers=1, reads=2, replaced=3, continues=False),
        r"o0 n1 n2 is of two logs",
    ),
    Case(
        "log: a record that does not continue is judged before the floor is looked at",
        LogStore(writers=2, trims=1, floor_before_doubt=False),
        r"transaction 2 does not continue the log before it",
    ),
    Case(
        "log: a snapshot that is gone is judged before the floor is looked at again",
        LogStore(writers=1, commits=2, readers=1, trims=2, floor_before_doubt=False),
        r"reader: the snapshot that the floor names is gone",
    ),
    Case(
        "log: a snapshot that another trimmer removed is taken for a fault",
        LogStore(writers=1, trimmers=2, trims=1, floor_before_doubt=False),
        r"trimmer: a snapshot does not read back as written",
    ),
    Case(
        "merge: no create-if-absent, and no lag",
        Settle(entries=2, rounds=(1, 1), if_absent=False),
        r"settled was 0 by 0, and now it is 0 by 1",
    ),
    Case(
        "merge: records removed before their entries",
        Settle(entries=2, trims=1, entries_first=False),
        r"entry 0 is in two records",
    ),
    Case(
        "merge: entries read before the records are looked into",
        Settle(entries=2, trims=1, entries_read_last=False),
        r"entry 0 is in two records",
    ),
    Case(
        "merge: entries removed for a record that did not lead here",
        Settle(entries=3, written=True, rounds=(2, 1), trims=2, led_here=False),
        r"entry \d is gone, and in no record",
    ),
    Case(
        "merge: entries removed before their record is read back",
        Settle(entries=2, rounds=(1, 1), read_back=False),
        r"entry 1 is gone, and in no record",
    ),
    Case(
        "merge: times alone, lag = stale",
        SettleTimes(lag=2, only_losses=True),
        r"settled was 0,1 by 0, and now it is 0",
    ),
    Case(
        "merge: times alone, stale 2, longest 1, lag 3", SettleTimes(lag=3), r"settled was 0 by 0, and now it is 0 by 1"
    ),
    Case(
        "merge: times alone, a settler writes however long it took",
        SettleTimes(lag=7, gives_up=False),
        r"settled was 0 by 0, and now it is 0 by 1",
    ),
    Case("merge: times, create-if-absent, lag 0", SettleTimes(lag=0, if_absent=True), r"an entry came late"),
    Case(
        "runs: decided before all streams are prepared",
        AtomicRuns(all_prepared=False),
        r"run 0a1 is seen, and not in stream 1",
    ),
    Case(
        "runs: a decision replaces the one that is there",
        AtomicRuns(plain=(0,), create_if_absent=False),
        r"the decision about 0a1 changed",
    ),
    Case(
        "runs: a decision that is refused is taken for done",
        AtomicRuns(plain=(0,), decision_read_back=False),
        r"stream 0 has 0 messages, and 1 were told of",
    ),
    Case(
        "runs: what is prepared is read before it is decided",
        AtomicRuns(readers=1, undecided_left_out=False),
        r"run 0a1 is seen, and not in stream 1",
    ),
    Case(
        "runs: what is decided is not read before it is settled",
        AtomicRuns(readers=1, decision_counts=False),
        r"stream 0 ends at 0, and 1 was told of before",
    ),
    Case(
        "runs: a plain writer appends behind what is prepared",
        AtomicRuns(plain=(0,), settled_first=False),
        r"x1 comes upon 0a1, which is not settled",
    ),
    Case(
        "runs: settled without a look at the decision",
        AtomicRuns(plain=(0,), decision_read=False),
        r"stream 0 has -0a1, which was not decided so",
    ),
    Case(
        "runs: no second listing",
        AtomicRuns(readers=1, listed_again=False),
        r"run 0a1 is seen, and not in stream 1",
    ),
    Case(
        "runs: as of a commit by the first listing alone",
        AtomicRuns(streams=3, runs=((0,), (1, 2)), clocks=(0, 1), readers=1, as_of_cut=False),
        r"as of 0a1, run 1b1 is seen, and not in stream",
    ),
    Case(
        "runs: only what is new is cut, and not the runs behind it",
        AtomicRuns(runs=_ONE_BEHIND, clocks=(0, 1), readers=1, pages=True, cut_behind=False),
        r"run 1b2 is seen, and not in stream 0",
    ),
    Case(
        "runs: names by the clock alone",
        AtomicRuns(runs=((0, 1), (0,)), clocks=(1, 0), greater_names=False),
        r"as of 0b1, run 1a1 is seen, and not in stream 1",
    ),
    Case(
        "runs: streams prepared in another order by each, and nobody loses patience",
        AtomicRuns(runs=_BOTH, patience=False, one_order=False),
        r"a and b wait for ever",
    ),
    Case(
        "attached: deleted before a transaction says so",
        Attached(**_TWO_COLLECTORS, deletion_agreed=False),
        r"copy 1 is listed, and its object is gone",
    ),
    Case(
        "attached: a writer uses the name that is being deleted",
        Attached(**_TWO_COLLECTORS, other_copy=False),
        r"copy 1 is listed, and its object is gone",
    ),
    Case(
        "attached: deleted before manifest.json shows that it is retired",
        Attached(**_READ, shown_first=False),
        r"a reader misses copy 1",
    ),
    Case(
        "attached: deleted as soon as manifest.json shows that it is retired",
        Attached(**_READ, grace_before_deletion=False),
        r"a reader misses copy 1",
    ),
    Case(
        "attached: a collector does not say which retirement it saw",
        Attached(**_READ, since_said=False),
        r"a reader misses copy 1",
    ),
    Case(
        "attached: deleted without another look at the state",
        Attached(**_TWO_COLLECTORS, looked_again=False),
        r"copy 1 is listed, and its object is gone",
    ),
    Case(
        "attached: forgotten as soon as it is deleted",
        Attached(**_TWO_COLLECTORS, grace_before_forgetting=False),
        r"copy 1 is listed, and its object is gone",
    ),
    Case(
        "attached: a writer remembers for ever what it stored",
        Attached(files=(2, 1), rounds=(5,), memory_ends=False),
        r"copy 1 is listed, and its object is gone",
    ),
    Case(
        "attached: what should have been deleted is deleted however late it is",
        Attached(**_TWO_COLLECTORS, late_begins_anew=False),
        r"copy 1 is listed, and its object is gone",
    ),
    *FAULTY_SEGMENTS,
)
"""Each breaks a promise, in the fewest steps that can."""


@cache
def explored(case: Case) -> Explored[Any]:
    """The case, explored once in a process."""
    return explore(case.model)


def row(case: Case) -> str:
    """Its line of the table in ``docs/explanation/model.md``."""
    result = explored(case)
    if result.found is None:
        return f"| {case.name} | {result.states:,} | {result.steps:,} | {result.depth} |"
    promise = result.found.promise.replace("|", ";")
    return f"| {case.name} | {len(result.found.steps)} | {promise} |"

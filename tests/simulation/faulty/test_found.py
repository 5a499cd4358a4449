"""The simulation finds what it is there to find: in each store with a known hole, the promise that the hole breaks."""

from __future__ import annotations

import re

import pytest

from singerlake.format.state import fold
from singerlake.format.state.transactions import AddFiles, Transaction
from singerlake.stores.port import Loaded, Pending
from tests.simulation.faulty.all import FAULTY
from tests.simulation.faulty.merge import OnlyWhatIsLost
from tests.simulation.run import simulate
from tests.simulation.shrink import shrunk
from tests.simulation.stores.kinds import KINDS, StoreOf
from tests.simulation.world.choices import identities, scripted
from tests.simulation.world.clocks import Wrongness
from tests.simulation.world.faults import profile
from tests.simulation.world.files import SCHEMA, STREAM, TAP, VERSION, written_file
from tests.simulation.world.world import World

SEEDS = 1200
BEGINS = {
    "loser-deletes": 4045,
    "points-elsewhere": 1190,
    "impatient": 1317,
    "tables-tidy": 577,
    "tables-blind": 400,
    "attaches-remembered": 2290,
    "queued-in-any-order": 175,
    "erases-any": 84,
    "tidy": 460,
}
"""The seed from which on a hole is looked for that few runs meet, shortly before one that meets it; 0 for all others.
A change of the product that shifts what a seed does makes the search longer, and no less sure."""
BREAKS = {
    "lock-alone": "manifest.json went from|acknowledged files are in the state no more|without",
    "fooled": "acknowledged files are in the state no more|manifest.json went from|never was|another state",
    "blind-heartbeat": "overwrote the lock of",
    "blind-release": "deleted the lock of",
    "hasty": "one batch of one run is listed as two files",
    "tidy": "a listed file was deleted|is listed and not on storage",
    "no-floor": "was given another state|gave state|CorruptObjectError|written again",
    "skips-gaps": "was given another state|gave state|never was",
    "removes-first": "record .* was removed, the floor is",
    "publishes-other": "manifest.json went from",
    "body-first": "body.json was removed, and the item .* names it",
    "loser-deletes": "snapshot.json was removed, and the item .* names it",
    "points-elsewhere": "the newest snapshot went from",
    "mps3-lag": "acknowledged files are lost",
    "mps3-order": "moved from",
    "impatient": "is listed and not on storage",
    "deletes-alone": "no transaction said so",
    "drops-any": "a drop does not call retired what was there",
    "erases-any": "erased records are in file .* again",
    "erases-once": "an erasure was acknowledged and left records",
    "rebuilds-blind": "erased records are in file .* of a rebuild again",
    "expires-more": "and only what is before",
    "attaches-deleted": "is listed while it is deleted|is listed and not on storage",
    "attaches-remembered": "attached file .* is listed and not on storage",
    "attached-deleted-alone": "attached file was deleted and no transaction said so|listed attached file was deleted",
    "attached-out-of-sight": "is listed no more and not retired",
    "items-believed": "a reader got other files than those",
    "segments-later": "names segment .*, which is not there",
    "segments-of-manifest": "segment .* was deleted, and .*snapshot.json names it",
    "segments-impatient": "a segment of the stream's state is gone|a reader misses a segment",
    "segments-not-read": "are listed twice|is listed as two files",
    "segments-taken-over": "names segment .*, which is of another state",
    "queued-deletes-first": "was acknowledged and is in no state",
    "queued-counts-twice": "are listed twice",
    "queued-in-any-order": "comes behind a later one",
    "tables-unfenced": "a run committed a file that is gone|MissingFileError",
    "tables-unconditional": "a write is lost",
    "tables-no-look": "a listed file was deleted",
    "tables-files-first": "a listed file was deleted by dropper",
    "tables-blind": "a listed file was deleted by collector|a run committed a file that is gone",
    "tables-back": "brought back a table that was dropped",
    "tables-tidy": "a listed file was deleted|a run committed a file that is gone",
    "delta-state-first": "the Delta log went from state",
    "delta-unconditional": "of the Delta log was written again",
    "delta-unkept": "of the Delta log was deleted, and there is no later checkpoint",
    "runs-first-alone": "a part of run .* is in the lake",
    "runs-by-force": "the decision about .* changed",
    "runs-not-read-back": "the state of a run that was committed lacks files",
    "runs-undecided": "was given another state|which never was",
    "runs-not-read": "is not prepared|which never was|was given another state",
    "runs-unsure": "was told that it never will be",
    "runs-behind": "does not fit: commit .* is not decided|-settled was decided",
    "runs-published": "is undecided, and was kept or published",
    "runs-one-listing": "a part of run .* is in a view",
    "runs-as-of-by-one-listing": "a part of run .* is in a view as of",
    "runs-by-the-clock": "a view as of",
    "never-rolls": "under a name that no reader takes for one",
}
"""What is to be found, of each faulty store."""


def first_violation(name: str, pattern: str) -> tuple[int, str]:
    """The first seed that breaks the promise that ``pattern`` names, and how."""
    begins = BEGINS.get(name, 0)
    for seed in (*range(begins, begins + SEEDS), *range(begins)):
        violation = simulate(FAULTY[name], seed).violation
        if violation is not None and re.search(pattern, violation):
            return seed, violation
    raise AssertionError(f"none of {begins + SEEDS} runs of {name} breaks {pattern!r}")


@pytest.mark.sampled(name=8)
@pytest.mark.parametrize("name", FAULTY)
def test_a_known_hole_is_found(name: str) -> None:
    seed, violation = first_violation(name, BREAKS[name])
    again = simulate(FAULTY[name], seed, trace=True)
    assert again.violation == violation
    assert again.trace[-1].endswith(violation) or "Traceback" in violation


def two_writers_with_clocks_apart(store_of: StoreOf) -> tuple[list[str], list[str]]:
    """What two writers commit whose clocks are 4.9 s fast and 4.9 s slow, the slow one 50 ms later, and what a reader
    finds when all is settled; each of the two by its own reckoning wrote in time."""
    choices = scripted([])
    world = World(choices, profile(choices), identities(0), OnlyWhatIsLost)
    world.watches = FAULTY["mps3-lag"].watches(world)
    scheduler = world.scheduler
    fast = store_of(world, scheduler.process("fast", Wrongness(offset=4.9)))
    slow = store_of(world, scheduler.process("slow", Wrongness(offset=-4.9)))
    first = fold.empty(tap=TAP, stream=STREAM, store="merge", lineage="l", created="2026", transaction_id="birth")
    base = store_of(world, scheduler.process("first")).create(first)
    scheduler.sleep(30)
    committed = []
    for store in (fast, slow):
        upload = written_file(world.ids(), 1, run="r", seq=0)
        change = AddFiles(files=(upload.file,), schemas={VERSION: SCHEMA})
        outcome = store.commit(base, Transaction(id=world.ids(), at="2026", change=change))
        assert isinstance(outcome, (Loaded, Pending))
        committed.append(upload.file.id)
        scheduler.sleep(0.05)
    reader = store_of(world, scheduler.process("reader"))
    scheduler.sleep(30)
    reader.trim(keep=100, dry_run=False)
    loaded = reader.load()
    assert loaded is not None
    return committed, [file.id for file in loaded.manifest.files]


def test_a_lag_as_short_as_what_counts_as_stale_loses_what_a_slow_clock_wrote() -> None:
    committed, found = two_writers_with_clocks_apart(FAULTY["mps3-lag"].store_of)
    assert found == committed[:1]
    committed, found = two_writers_with_clocks_apart(KINDS["merge"].store_of)
    assert sorted(found) == sorted(committed)


def test_what_was_found_shrinks_to_a_shorter_run_that_breaks_the_same() -> None:
    kind = FAULTY["publishes-other"]
    seed, _ = first_violation(kind.name, BREAKS[kind.name])
    found = simulate(kind, seed)
    schedule = shrunk(kind, found, attempts=300)
    again = simulate(kind, seed, schedule=schedule)
    assert again.violation is not None
    assert "manifest.json went from" in again.violation
    assert len(schedule) < len(found.schedule) / 2

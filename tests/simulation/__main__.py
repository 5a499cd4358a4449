"""Simulated runs from the command line: many seeds of many stores, or one seed with all that happened in it.

python -m tests.simulation --store all --seeds 10000 --jobs 2
python -m tests.simulation --store log --seed 1234 --trace
python -m tests.simulation --store log --seed 1234 --shrink
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from time import monotonic

from tests.simulation.faulty.all import FAULTY
from tests.simulation.run import Verdict, simulate
from tests.simulation.shrink import shrunk
from tests.simulation.stores.all import STORES
from tests.simulation.stores.kinds import Kind

CHUNK = 50
"""Seeds that a worker process takes at once."""
_ALL = STORES | FAULTY


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 where no invariant was violated, 1 where one was, 2 for wrong arguments."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__.splitlines()[0])
    parser.add_argument("--store", required=True, choices=["all", *_ALL], metavar="STORE", help=", ".join(_ALL))
    parser.add_argument("--seed", type=int, help="run this seed alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: print every step")
    parser.add_argument("--shrink", action="store_true", help="with --seed: look for a shorter run that fails alike")
    parser.add_argument("--seeds", type=int, default=1000, help="how many seeds of each store (default 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first of them (default 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default 1)")
    options = parser.parse_args(arguments)
    kinds = list(STORES.values()) if options.store == "all" else [_ALL[options.store]]
    if options.seed is None:
        return _many(kinds, options.first, options.seeds, options.jobs)
    return max(_one(kind, options.seed, trace=options.trace, shrink=options.shrink) for kind in kinds)


def _one(kind: Kind, seed: int, *, trace: bool, shrink: bool) -> int:
    verdict = simulate(kind, seed, trace=trace)
    if shrink and verdict.violation:
        schedule = shrunk(kind, verdict)
        verdict = simulate(kind, seed, schedule=schedule, trace=True)
        print(f"shrunk to {len(schedule)} decisions", file=sys.stderr)
    print("\n".join(verdict.trace), end="\n" if verdict.trace else "")
    print(f"{kind.name} seed {seed}: {verdict.steps} steps, {verdict.seconds:.1f} s: {verdict.violation or 'holds'}")
    return int(verdict.violation is not None)


def _many(kinds: list[Kind], first: int, seeds: int, jobs: int) -> int:
    started, failed = monotonic(), 0
    with ProcessPoolExecutor(jobs) as pool:
        for kind in kinds:
            done = 0
            futures = [
                pool.submit(_chunk, kind.name, start, min(CHUNK, first + seeds - start))
                for start in range(first, first + seeds, CHUNK)
            ]
            for future in as_completed(futures):
                ran, violations = future.result()
                done += ran
                failed += len(violations)
                for verdict in violations:
                    _report(verdict)
                sys.stderr.write(
                    f"\r{kind.name}: {done}/{seeds} seeds, {monotonic() - started:.0f} s, {failed} failed "
                )
                sys.stderr.flush()
            sys.stderr.write("\n")
    return int(failed > 0)


def _report(verdict: Verdict) -> None:
    print(f"\n{verdict.kind}: {verdict.violation}\n  {replay(verdict)}", flush=True)


def replay(verdict: Verdict) -> str:
    """The command that runs it again."""
    return f"python -m tests.simulation --store {verdict.kind} --seed {verdict.seed} --trace"


def _chunk(name: str, start: int, count: int) -> tuple[int, list[Verdict]]:
    verdicts = (simulate(_ALL[name], seed) for seed in range(start, start + count))
    return count, [verdict for verdict in verdicts if verdict.violation]


if __name__ == "__main__":
    sys.exit(main())

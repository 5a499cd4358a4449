"""Commit to two streams in turn, one of very many files and one of few, and print the seconds of each and the ratio."""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

from bench.commits.committing import CLOCK, transaction
from singerlake.lake import Lake
from singerlake.stores.commit import commit_transaction
from singerlake.stores.port import Loaded, ManifestStore

COMMITS = 200
_WARM = 10


def main() -> None:
    """The folder that the first argument names has the lakes ``many`` and ``few``."""
    stores = [Lake.open(str(Path(sys.argv[1]) / name)).stream("bench", "orders").store() for name in ("many", "few")]
    bases = [_loaded(store) for store in stores]
    took: list[tuple[float, float]] = []
    for number in range(_WARM + COMMITS):
        pair = []
        for place, store in enumerate(stores):
            began = time.perf_counter()
            outcome = commit_transaction(store, bases[place], transaction(), clock=CLOCK)
            pair.append(time.perf_counter() - began)
            assert isinstance(outcome, Loaded)
            bases[place] = outcome
        if number >= _WARM:
            took.append((pair[0], pair[1]))
    many, few = (statistics.median(each) for each in zip(*took, strict=True))
    print(json.dumps([many, few, many / few]))


def _loaded(store: ManifestStore) -> Loaded:
    loaded = store.load()
    assert loaded is not None
    return loaded


if __name__ == "__main__":
    main()

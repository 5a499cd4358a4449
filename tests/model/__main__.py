"""``python -m tests.model [WORDS]``: the table of ``docs/explanation/model.md``; with words, the shortest way by which
each faulty variant whose name holds them breaks its promise."""

from __future__ import annotations

import sys

from tests.model.cases import FAULTY, KEPT, row
from tests.model.explorer import explore


def main() -> None:
    """Print what was asked for."""
    words = " ".join(sys.argv[1:])
    if not words:
        print("\n".join(map(row, KEPT)), "\n", sep="")
        print("\n".join(map(row, FAULTY)))
    for case in FAULTY if words else ():
        if words in case.name:
            print(case.name, explore(case.model, symmetric=False).found, "", sep="\n")


main()

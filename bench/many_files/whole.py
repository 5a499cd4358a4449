"""Read every entry of the list of files of the lake that the first argument names, and print how many there are."""

from __future__ import annotations

import sys

from singerlake.lake import Lake


def main() -> None:
    """In a process that does nothing else."""
    files = Lake.open(sys.argv[1]).stream("bench", "orders").snapshot().files
    print(sum(1 for _ in files))


if __name__ == "__main__":
    main()

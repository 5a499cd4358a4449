"""Plan a read of a lake from an offset on, as Spark's reader does on the driver, and print how many files it has.

Without Spark, whose own start takes longer than all of it.
"""

from __future__ import annotations

import sys

from singerlake.arrow.plan.request import Request
from singerlake.arrow.plan.snapshot import declared, pin, selected
from singerlake.arrow.plan.splits import pack, partition_bytes, splits
from singerlake.format.state.files.totals import totals_of
from singerlake.lake import Lake


def main() -> None:
    """The lake and the offset are the arguments."""
    root, offset = sys.argv[1:]
    request = Request(from_offset=int(offset))
    manifest = Lake.open(root).stream("bench", "orders").snapshot()
    pinned = pin(manifest, request)
    files = selected(manifest, pinned)
    declared(manifest, totals_of(files).versions, request)
    size = partition_bytes(files, pinned.first, pinned.stop, request)
    pack(splits(files, pinned.first, pinned.stop, size, attached=False), size)
    print(len(files))


if __name__ == "__main__":
    main()

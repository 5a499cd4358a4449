"""The demo's look at the table by its name, in a process of its own: a catalog is served, and asked; prints a line."""

from __future__ import annotations

import subprocess
import sys

NAMESPACE = "published"


def main(root: str, table: str) -> None:
    """How many flights the table has now and had after its first run, by pyiceberg from the catalog of the lake."""
    from pyiceberg.catalog import load_catalog

    command = ["singerlake", "catalog", "serve", root, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1]
            found = load_catalog("lake", type="rest", uri=url).load_table(f"{NAMESPACE}.{table}")
            first, *_, last = found.metadata.snapshots
            counts = [found.scan(snapshot_id=each.snapshot_id).count() for each in (last, first)]
            print(f"{counts[0]:,} flights in published.{table}, {counts[1]:,} in its first snapshot")
        finally:
            server.terminate()


if __name__ == "__main__":
    main(*sys.argv[1:])

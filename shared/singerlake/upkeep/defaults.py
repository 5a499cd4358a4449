"""How long upkeep waits, and how much it keeps and joins, by default."""

from __future__ import annotations

from datetime import timedelta

GRACE = timedelta(days=7)
"""How long each step of a collection waits: longer than a reader reads on from one state, or a writer stands still."""
KEPT = 200
"""Transactions a trim leaves, as Sleeper's does: what a slow reader may still be following."""
TARGET_BYTES = 128 << 20
"""The most bytes of a joined file: those of a target's own files by default."""
MOST_WAITING = 250_000
"""Replaced files that a state lists until a collector has deleted them. Everybody who opens the stream reads some 190
bytes of each: with these, ``ls`` takes 200 MB of memory."""

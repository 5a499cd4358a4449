"""The on-disk contract as pure functions and frozen models; ``shared/docs/format.md`` is its text."""

FORMAT = 1
"""The format this package writes, and the newest it reads."""

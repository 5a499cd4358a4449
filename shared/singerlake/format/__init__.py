"""The on-disk contract as pure functions and frozen models; ``shared/docs/format.md`` is its text."""

FORMAT = 1
"""The format this package writes of all else."""
NEWEST_FORMAT = 2
"""The newest that this package reads and writes of a stream: that of one in which something was erased or expired."""

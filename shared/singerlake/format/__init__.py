"""The on-disk contract as pure functions and frozen models; ``shared/docs/format.md`` is its text."""

FORMAT = 1
"""The format this package writes of all else."""
ERASED_FORMAT = 2
"""The format of a stream in which something was erased or expired."""
ATTACHED_FORMAT = 3
"""The format of a stream that has attached files."""
NEWEST_FORMAT = ATTACHED_FORMAT
"""The newest that this package reads and writes of a stream."""

"""The on-disk contract as pure functions and frozen models; ``shared/docs/format`` is its text."""

FORMAT = 1
"""The format this package writes of all else."""
ERASED_FORMAT = 2
"""The format of a stream in which something was erased or expired."""
ATTACHED_FORMAT = 3
"""The format of a stream that has attached files."""
ATOMIC_FORMAT = 4
"""The format of a stream that an atomic run wrote to."""
SEGMENTS_FORMAT = 5
"""The format of a stream whose state has segments."""
NEWEST_FORMAT = SEGMENTS_FORMAT
"""The newest that this package reads and writes of a stream."""

"""The on-disk contract as pure functions and frozen models; ``shared/docs/format.md`` is its text."""

FORMAT = 1
"""The format this package writes."""
ERASED_FORMAT = 2
"""That of a stream in which something was erased."""
NEWEST_FORMAT = ERASED_FORMAT
"""The newest format this package reads of a stream."""

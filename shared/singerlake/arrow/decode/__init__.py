"""From lines to batches: the fast path in C and msgspec, the slow path line by line."""

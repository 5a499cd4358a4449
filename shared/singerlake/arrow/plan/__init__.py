"""Which messages a request means: the snapshot, the pruned files, the splits."""

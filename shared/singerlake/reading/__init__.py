"""The messages of data files: slices, gzip members, ranges of storage that is far away."""

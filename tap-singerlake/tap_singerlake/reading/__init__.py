"""Data files read ahead of who wants their lines: ranges, gzip members, messages."""

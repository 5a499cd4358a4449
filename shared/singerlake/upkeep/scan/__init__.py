"""Reading data files whole: their bytes, checksums, members, lines and times."""

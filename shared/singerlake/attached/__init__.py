"""Files that are attached to records: their rows in data files, their objects, and where they come from."""

"""A table's state: the model of ``_table.json``, its keys, and the one conditional write that replaces it."""

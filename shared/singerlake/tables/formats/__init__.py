"""What a table's files are: one port, one module a format."""

"""The state of a stream, read from the tables and from what is published."""

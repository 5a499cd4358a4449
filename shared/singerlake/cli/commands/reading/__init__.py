"""Commands that only read a lake: one command, one file."""

"""Commands that bring messages, notes and commits into a lake: one command, one file."""

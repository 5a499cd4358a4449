"""Commands that take messages out of a lake, or say when that is to be done: one command, one file."""

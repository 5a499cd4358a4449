"""Commands that check, mend and tidy a lake: one command, one file."""

"""One command, one file, in the folder of what it does to a lake."""

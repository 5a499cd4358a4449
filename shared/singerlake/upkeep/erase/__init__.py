"""Erasing records: the condition that means them, where they are, files without them in the place of those."""

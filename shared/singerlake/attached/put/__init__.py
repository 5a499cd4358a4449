"""Files of this machine that are kept in a lake without a tap: which are meant, their bytes, and their records."""

"""``target-singerlake``: keeps what a Singer tap emits, byte for byte, in a Singerlake."""

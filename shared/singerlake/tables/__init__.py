"""Tables: typed rows made from streams, kept exactly once. The format is section 14 of ``shared/docs/format``."""

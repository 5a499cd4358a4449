"""Where objects are kept: one port, three adapters, one probe."""

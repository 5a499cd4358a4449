"""Singer messages as lines: read, counted, and the times in them."""

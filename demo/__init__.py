"""``make demo``: real flights through a tap, into the lake, out again, and read by Spark."""

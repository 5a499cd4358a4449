"""Writing a DataFrame into a lake as a stream."""

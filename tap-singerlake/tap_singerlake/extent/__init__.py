"""From where to where a stream is read."""

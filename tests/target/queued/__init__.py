"""The target with a queue, and committers beside it."""

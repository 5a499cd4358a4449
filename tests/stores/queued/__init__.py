"""Commits by way of a queue."""

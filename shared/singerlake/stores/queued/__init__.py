"""Commits by way of a queue: what writers send, and what commits it in their place."""

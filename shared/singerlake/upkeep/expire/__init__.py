"""Expiring the oldest messages of a stream: by which rule, and up to where."""

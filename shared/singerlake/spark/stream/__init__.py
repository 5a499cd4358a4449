"""Streaming reads of a stream."""

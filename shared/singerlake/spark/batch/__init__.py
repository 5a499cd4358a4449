"""Batch reads of a stream."""

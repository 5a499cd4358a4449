"""Formats of tables."""

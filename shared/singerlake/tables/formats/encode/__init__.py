"""Rows of Arrow columns as the bytes of a file."""

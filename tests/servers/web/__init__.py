"""Servers of the web for tests."""

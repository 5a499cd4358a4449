"""Writes the lakes of tests/golden/suite."""

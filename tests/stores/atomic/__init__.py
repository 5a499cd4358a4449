"""Atomic runs: decisions, commits and undecided logs."""

"""Atomic runs: what they bring to all their streams becomes visible at once, or never."""

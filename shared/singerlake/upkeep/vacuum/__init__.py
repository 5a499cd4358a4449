"""Joining small files into larger ones: plan, apply, join."""

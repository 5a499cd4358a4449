"""Rebuilding and checking a lake: plan (pure), apply, report."""

"""Collecting what is replaced, orphaned or given up: plan, apply."""

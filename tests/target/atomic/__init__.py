"""The target with ``atomic_run``."""

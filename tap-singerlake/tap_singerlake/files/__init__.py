"""Copies of attached files, for targets that load them beside the records."""

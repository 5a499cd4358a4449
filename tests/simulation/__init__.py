"""A deterministic simulation of the manifest stores; README.md says what it does, and what it does not."""

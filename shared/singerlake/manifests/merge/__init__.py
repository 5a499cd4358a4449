"""``merge``: entries that nobody waits to write, settled in numbered records (MPS3)."""

"""``merge``: entries that are written without waiting, and settled in numbered records (MPS3)."""

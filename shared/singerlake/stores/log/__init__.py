"""``log``: numbered transactions as objects beside the data (Sleeper, transaction log)."""

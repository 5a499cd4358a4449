"""``dynamodb``: numbered transactions as items (Sleeper, transaction log)."""

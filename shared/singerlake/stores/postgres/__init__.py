"""``postgres``: transactions and state as rows (Sleeper, proposed store, option 3)."""

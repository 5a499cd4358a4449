"""Google Cloud Storage for tests: its JSON API, as far as a lake needs it, held in memory."""

"""From Singer lines to Arrow record batches: what the Spark reader does in its tasks, and what serves everything else
that takes Arrow. Knows no engine."""

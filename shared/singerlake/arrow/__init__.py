"""From Singer lines to Arrow record batches, for the tasks of Spark and all else that takes Arrow. Knows no engine."""

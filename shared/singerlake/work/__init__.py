"""Where files are read: threads, processes or Spark, with a journal from which a later run continues."""

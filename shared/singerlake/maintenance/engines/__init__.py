"""Where files are read: threads, processes or Spark, with a journal to go on from."""

"""What workers of a run do: read offsets, hand sorted rows to each other, write files. Each is a task of an engine."""

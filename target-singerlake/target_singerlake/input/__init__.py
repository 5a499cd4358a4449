"""What comes in: lines, messages, schemas, BATCH files."""

"""Lakes in a folder of a local disk."""

"""Tables in the format delta."""

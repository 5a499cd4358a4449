"""A run: what a table needs, the tasks that do it, the one write that publishes it."""

"""The ``singerlake`` command: one module a subcommand."""

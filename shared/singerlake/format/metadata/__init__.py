"""What a lake says of itself beside its data: ``singerlake.json`` and the catalogues."""

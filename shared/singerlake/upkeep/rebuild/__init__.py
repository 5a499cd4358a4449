"""Making manifests, catalogues and root metadata again from the data files."""

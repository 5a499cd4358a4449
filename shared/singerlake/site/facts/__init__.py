"""What a site tells of a lake, read from its manifests before any page is written."""

"""The state of a large stream on storage: a head that names segments, and the segments."""

"""One writer of one stream: what it takes, uploads and commits."""

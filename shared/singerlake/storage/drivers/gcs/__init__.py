"""Lakes in a bucket of Google Cloud Storage."""

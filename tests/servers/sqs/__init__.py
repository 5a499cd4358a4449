"""An SQS server for tests."""

"""What S3, DynamoDB and SQS have in common: settings, sessions, roles, and errors that are not answers of a service."""

"""Columns from the JSON Schemas of a stream's versions, and their Arrow types."""

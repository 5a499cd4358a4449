"""BATCH messages: records in files of their own, which a target loads by the file."""

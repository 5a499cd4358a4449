"""Checking files and state against each other; nothing is changed."""

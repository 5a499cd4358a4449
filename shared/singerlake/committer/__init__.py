"""Committers: what commits to a lake's streams what writers sent to a queue."""

"""Readers of a stream that go on with what comes."""

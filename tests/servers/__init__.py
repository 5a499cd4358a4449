"""Real servers for the tests, and what they need to start."""

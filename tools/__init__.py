"""What builds, checks and demonstrates the project; never shipped."""

"""What the object stores of clouds have in common, and each by itself does not."""

"""What the tap offers of a lake, and what a person selected of it."""

"""Tables: what it takes to make them, to keep them fresh, to read them."""

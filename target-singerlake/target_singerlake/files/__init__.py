"""Files that grow until they are committed, and what is told of them."""

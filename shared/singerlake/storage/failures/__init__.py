"""What errors of the libraries that send requests have in common, whichever storage they are of."""

"""A stream's state: the manifest, the transactions, and the pure fold of the one over the other."""

"""How writers agree on a stream's transactions: one port, one commit loop, one module a store."""

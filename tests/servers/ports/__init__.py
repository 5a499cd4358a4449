"""Ports of 127.0.0.1 that stay the caller's own, with a server behind them or not."""

"""How the Python interpreter is set for what is done in it."""

"""Looking after tables: verify what they hold, collect what they no longer list, drop them."""

"""Tables of a statement in SQL: what they are made from, in what order, and how their rows become files."""

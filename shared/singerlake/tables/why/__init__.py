"""From a row of a table to the record that it was made of, and to its bytes."""

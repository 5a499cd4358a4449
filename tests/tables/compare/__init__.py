"""Tables made from streams, held against what the format page says of them."""

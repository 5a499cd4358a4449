"""Tables made beside the lake, of messages up to some offset, and what differs between two of them."""

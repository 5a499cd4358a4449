"""Where attached files come from. What a record says is input of strangers: nothing is read that is not allowed."""

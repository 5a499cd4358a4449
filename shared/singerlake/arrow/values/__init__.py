"""From values to arrays: what fits a column, and what becomes of what does not."""

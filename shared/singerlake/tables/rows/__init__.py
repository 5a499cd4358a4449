"""From record batches to rows of a table: columns, casts, checks, order, winners, intervals. Arrow in, Arrow out."""

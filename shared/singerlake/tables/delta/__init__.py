"""The Delta log of a table: engines that read Delta find the table's files by it (section 14.5 of the format)."""

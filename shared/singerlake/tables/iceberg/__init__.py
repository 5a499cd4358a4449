"""The Iceberg metadata of a table: engines that read Iceberg find its files by them (section 14.8 of the format)."""

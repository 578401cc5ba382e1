"""What is made of records: comparisons, tables, pictures."""

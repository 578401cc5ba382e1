"""Reports from records: comparisons, tables, pictures."""

"""Names that older packages promised, kept over the parts that do the work now."""

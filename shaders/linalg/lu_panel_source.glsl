// The place in `slots` of the row that comes to `row` by the block's exchanges; 2 * count if that row stays.
uint slot_of_source(uint row, uint first_column, uint count) {
  uint from = row;
  for (uint n = 0; n < count; ++n) {
    const uint k = count - 1 - n, other = exchanged[k];
    from = from == first_column + k ? other : from == other ? first_column + k : from;
  }
  if (from == row) return 2 * count;
  if (from >= first_column && from < first_column + count) return from - first_column;
  for (uint k = 0; k < count; ++k)
    if (exchanged[k] == from) return count + k;
  return 2 * count;
}

// The sum of a product's splits; `one` is the number of elements of a split. Constants: SPLITS, SUMS_DTYPE.
REAL sum_of_splits(uint64_t sums, uint64_t i, uint64_t one) {
  REAL sum = REAL(0);
  [[unroll]] for (int s = 0; s < SPLITS; ++s) sum += LOAD(sums, i + uint64_t(s) * one, SUMS_DTYPE);
  return sum;
}

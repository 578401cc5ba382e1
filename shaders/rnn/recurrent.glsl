// What the kernels of whole recurrent layers share. Rows of a step: the first running[d] sequences of the batch, at
// first_row[d] of all rows (time by time, as packed sequences lie); d counts directions, of which the second goes from
// the last time to the first. CELL: 0 tanh, 1 relu, 2 GRU, 3 LSTM.
const int TANH = 0, RELU = 1, GRU = 2, LSTM = 3;
const uint GATES = CELL == LSTM ? 4 : CELL == GRU ? 3 : 1;

// The sum of a product's splits; `one` is the number of elements of a split.
float sum_of_splits(uint64_t sums, uint64_t i, uint64_t one) {
  float sum = 0.0;
  [[unroll]] for (int s = 0; s < SPLITS; ++s) sum += load_float(sums, i + uint64_t(s) * one, SUMS_DTYPE);
  return sum;
}

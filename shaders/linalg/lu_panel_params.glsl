// Of the kernels that factorize panels.
struct Params {
  uint64_t a, pivots, info;
  int64_t batch_stride, row, col, pivots_batch;
  uint m, n, batches, first;
};

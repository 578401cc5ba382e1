// Loads to shared memory: a loop whose loads wait for each other's stores has one in flight, and a branch around a load
// keeps the next one waiting. `load` and `store` are of element e, of `count` in all that LOCAL invocations share; at
// the end `load` is of the last element again.
#define STAGE(count, load, store) \
  for (uint first_of_eight = lane; first_of_eight < (count); first_of_eight += 8 * LOCAL) { \
    C eight[8]; \
    [[unroll]] for (uint u = 0; u < 8; ++u) { \
      const uint e = min(first_of_eight + u * LOCAL, (count) - 1); \
      eight[u] = load; \
    } \
    [[unroll]] for (uint u = 0; u < 8; ++u) { \
      const uint e = first_of_eight + u * LOCAL; \
      const C loaded = eight[u]; \
      if (e < (count)) store; \
    } \
  }

// Row and column of element e of a matrix [rows, columns]: along the smaller stride, so that loads are coalesced.
uvec2 staged_place(uint e, uint rows, uint columns, int64_t row, int64_t col) {
  return abs(row) <= abs(col) ? uvec2(e % rows, e / rows) : uvec2(e / columns, e % columns);
}

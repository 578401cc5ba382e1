// How the indexing kernels step through their iteration space.
//
// The space has SPREAD + WALKED dimensions, innermost last. The first SPREAD are spread over p.n invocations; the last
// WALKED (p.steps points) are walked by each invocation in order. Colliding destinations lie on one walk whenever the
// op asks for an order (deterministic algorithms, dtypes without an atomic form): then the last writer wins and sums
// have one order.
//
// `plain` is addressed by position alone, `indexed` by position (its dimensions outside the index) plus
// sum over k of index_k * step[k]. Every stride is in elements.
//
// kMaxDims and kMaxIndices are the array sizes of Params. SPREAD, WALKED and INDICES are specialization constants
// because a load in a loop that stays a loop is scalar on a CPU device (about 40 ns per 8 invocations); unrolled, the
// parameters are loaded once.
struct Place {
  int64_t plain;
  int64_t indexed;
  int64_t at_index[kMaxIndices];
  bool good;
};

// Adds the coordinates of `linear` over dimensions [first, first + count).
void add_dims(inout Place place, uint linear, int first, int count) {
  [[unroll]] for (int i = 0; i < kMaxDims; ++i) {
    if (i >= count) continue;
    int d = first + count - 1 - i;
    uint c = linear;
    if (i + 1 < count) {
      uint rest = linear / p.size[d];
      c = linear - rest * p.size[d];
      linear = rest;
    }
    place.plain += int64_t(c) * int64_t(p.plain_stride[d]);
    place.indexed += int64_t(c) * int64_t(p.indexed_stride[d]);
    [[unroll]] for (int k = 0; k < kMaxIndices; ++k)
      if (k < INDICES) place.at_index[k] += int64_t(c) * int64_t(p.index_stride[k * kMaxDims + d]);
  }
}

uint walk_steps() { return WALKED > 0 ? p.steps : 1u; }

Place first_place(uint id) {
  Place place;
  place.plain = int64_t(0);
  place.indexed = int64_t(0);
  [[unroll]] for (int k = 0; k < kMaxIndices; ++k) place.at_index[k] = int64_t(0);
  place.good = true;
  add_dims(place, id, 0, SPREAD);
  return place;
}

// The place of step s of the walk, with the indices read; a bad index goes to the error record and marks the place as
// not to be touched.
Place place_at(Place place, uint s) {
  if (WALKED > 0) add_dims(place, s, SPREAD, WALKED);
  [[unroll]] for (int k = 0; k < kMaxIndices; ++k) {
    if (k >= INDICES) continue;
    int64_t i = load_int64(p.index[k], uint64_t(place.at_index[k]), INDEX_DTYPE);
    int64_t bound = int64_t(p.bound[k]);
    int64_t low = p.tag >= 0x80000000u ? -bound : int64_t(0);
    if (i < low || i >= bound) {
      report_error(p.error, AULE_ERR_INDEX_OUT_OF_RANGE, p.tag & 0x7fffffffu, i, bound);
      place.good = false;
      i = int64_t(0);
    }
    if (i < int64_t(0)) i += bound;
    place.indexed += i * int64_t(p.step[k]);
  }
  return place;
}

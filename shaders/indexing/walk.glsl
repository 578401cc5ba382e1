// The iteration space of the indexing kernels.
//
// The space has SPREAD + WALKED dimensions, innermost last. The first SPREAD are spread over p.n invocations. Each
// invocation loops over the last WALKED (p.steps points) in order. If the op needs an order (deterministic algorithms,
// dtypes without an atomic form), equal destinations are in one such loop: the last writer wins, and sums have one
// order.
//
// `plain` is addressed by position alone, `indexed` by position (its dimensions outside the index) plus
// sum over k of index_k * step[k]. Every stride is in elements.
//
// kMaxDims and kMaxIndices are the array sizes of Params. SPREAD, WALKED and INDICES are specialization constants, so
// that loops unroll and parameters are loaded once. In a loop each load takes about 40 ns per 8 invocations on lavapipe
// 22.3.
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

// The place of step s, with its indices read. A bad index is written to the error record, and `good` becomes false.
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

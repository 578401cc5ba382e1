#pragma aule inline
#define OWN_B
#define PREPARE prepare_levels();
// Operand b of gemm_quantized.comp: the steps of coopmat_product.glsl with a packed weight.
const uint WANTED = uint(SPAN) / uint(PARTS);     // octets of a span in a step
const uint ROW_SPANS = BK / 8 / WANTED;           // of a row in a step
const uint SPANS = BN * BK / 8 / LOCAL / WANTED;  // of an invocation in a step

// Span `q` of a step: 16 rows first, then their other spans. Sixteen invocations put octets of 16 rows into the tile
// together, and OWN_B_LANE spreads these over all its banks.
uint span_in_row(uint q) { return q / 16 % ROW_SPANS; }
uint row_of_span(uint q) { return q / 16 / ROW_SPANS * 16 + q % 16; }
// The lane of a matrix whose place has what lane `of` is to load.
#define OWN_B_LANE(of) ((of) ^ (of) / 8 % 4)

// Two numbers of T. bfloat16 by the half unit that is added to the bits, which would make NaN a number: NaN has 0.
uint rounded(float x, float y, uint half_unit) {
#ifdef T_bfloat16_t
  if (!EACH) return floatBitsToUint(x) + half_unit >> 16 | floatBitsToUint(y) + half_unit & 0xffff0000u;
  return float_to_bf16(x) | float_to_bf16(y) << 16;
#else
  return packFloat2x16(f16vec2(float16_t(x), float16_t(y)));
#endif
}
// An octet, in which NaN is all or nothing: sums do not tell.
uvec4 octet_of(Octet w) {
  const float scale = w.scale * w.unit, offset = w.offset - w.scale * (w.unit * w.one + w.zero);
  const uint half_unit = abs(scale) + abs(offset) <= 3.4e38 ? 0x8000u : 0u;
  uvec4 v;
  [[unroll]] for (int i = 0; i < 4; ++i)
    v[i] = rounded(fma(w.q[2 * i], scale, offset), fma(w.q[2 * i + 1], scale, offset), half_unit);
  return v;
}

Row w_row[SPANS];
Raw w_raw[SPANS];
uint w_step;
// Words of a step are loaded while the step before is multiplied, and decoded on their way into shared memory.
#define START_B                                                                                                       \
  [[unroll]] for (uint i = 0; i < SPANS; ++i) {                                                                       \
    const uint row = tile_n + (!IS_RAGGED ? row_of_span(i * LOCAL + t) : min(row_of_span(i * LOCAL + t), b_last));    \
    w_row[i] = row_at(p.b + uint64_t(row) * p.row_bytes, uint64_t(row), p.k);                                         \
  }                                                                                                                   \
  w_step = k_begin / BK;
#define NEXT_B ++w_step;
#define SPAN_OF_STEP(i) span_of(w_row[i], w_step / PARTS * ROW_SPANS + span_in_row(i * LOCAL + t));
#define LOAD_STEP_B(CHECK)                                                                                            \
  skipped = w_step % PARTS * WANTED;                                                                                  \
  loads = true;                                                                                                       \
  [[unroll]] for (uint i = 0; i < SPANS; ++i) {                                                                       \
    SPAN_OF_STEP(i)                                                                                                   \
    w_raw[i] = raw;                                                                                                   \
  }
// As loader.glsl puts a k-major vec8.
#if FRAGMENTS
#define PUT_OCTET(row, octet, v)                                                                                      \
  {                                                                                                                   \
    const uvec4 w = v;                                                                                                \
    const uint at = octet, half_row = LINE == 8 ? row / 8 & 1 ^ at / 4 : row / 8 & 1,                                 \
               matrix = B_TILE + (at / 4 * (BN / 16) + row / 16) * 128,                                               \
               place = matrix + OWN_B_LANE(row % 8 * 4 + at % 4) * 2 + half_row;                                      \
    tiles[place] = w.xy;                                                                                              \
    tiles[place + 64] = w.zw;                                                                                         \
  }
#else
#define PUT_OCTET(row, octet, v) tiles[B_TILE + row * B_PITCH + octet] = v;
#endif
#define PUT_STEP_B                                                                                                    \
  loads = false;                                                                                                      \
  [[unroll]] for (uint i = 0; i < SPANS; ++i) {                                                                       \
    raw = w_raw[i];                                                                                                   \
    SPAN_OF_STEP(i)                                                                                                   \
    const uint q = i * LOCAL + t, row = row_of_span(q), first = first_octet(span_in_row(q));                          \
    [[unroll]] for (uint o = 0; o < WANTED; ++o)                                                                      \
      PUT_OCTET(row, first + next_octet(int(o)), octet_of(decoded.octets[o]))                                         \
  }

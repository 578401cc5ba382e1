// The loader of gemm_coopmat.comp: how the invocations of a workgroup bring a step of 16-bit operands from memory into
// registers (START, LOAD) and from there into `tiles` (PUT). The kernel has declared its constants, `tiles` and the
// sizes made of them. A quantized operand would have a LOAD of its own, and the same PUT.
#ifndef AULE_GEMM_LOADER_GLSL
#define AULE_GEMM_LOADER_GLSL
// 8 elements, in loads of `vec`. A load with none of the first `valid` is left out, and gives zeros. One with some
// brings those after them, too, which may be anything.
uvec4 load8(uint64_t at, int valid, int vec) {
  uvec4 v = uvec4(0);
  if (vec == 8) {
    if (valid > 0) v = Vec16b(at).v;
  } else if (vec == 4) {
    if (valid > 0) v.xy = Vec8b(at).v;
    if (valid > 4) v.zw = Vec8b(at + 8).v;
  } else if (vec == 2) {
    UN for (int i = 0; i < 4; ++i)
      if (valid > 2 * i) v[i] = U32Ref(at + 4 * i).v;
  } else {
    UN for (int i = 0; i < 8; ++i)
      if (valid > i) v[i / 2] |= uint(U16Ref(at + 2 * i).v) << (16 * (i % 2));
  }
  return v;
}

// The first `valid` of 8 elements, zeros after them: what lies past k may be NaN, which times zero is NaN.
uvec4 first_of(uvec4 v, int valid) {
  UN for (int i = 0; i < 4; ++i) v[i] &= valid > 2 * i + 1 ? ~0u : valid > 2 * i ? 0xffffu : 0u;
  return v;
}

// Vec8 q of a tile, along k. LINE 8: neighbours fill a line of 128 bytes. 4: rows r and r + 8 are neighbours, so that
// the invocations that write to shared memory together fill whole lines of it.
uint vec8_slab(uint q, uint rows) { return LINE == 8 ? q % 8 / 4 : q / (rows * 4); }
uint vec8_row(uint q, uint rows) {
  const uint e = q % (rows * 4);
  return LINE == 8 ? q / 8 : e / 64 * 16 + e % 64 / 8 + (e / 4 & 1) * 8;
}
#define PAIRED (PAIRS && !A_MN_MAJOR)
// Pairs: the low bits of the vec8, a row's low bit, the slab, the other row bits, so that 8 invocations fill a line of
// shared memory and a subgroup reads whole lines of 4 rows.
uint pair_row(uint t) { return (t >> 2 & 1) | (t >> 4 & 3) << 1 | t >> 6 << 4; }
uint pair_ahead(uint i) { return (i & 1) * 8 + i / 2 * (LOCAL / 4); }
#if FRAGMENTS != 1
uint block_k(uint q, uint rows) { return q / (rows / 8); }
uint block_row(uint q, uint rows) { return q % (rows / 8) * 8; }
#else
// Block q of 4 k by 8 rows: rows' low bit, vec8 of 8 k in the slab (2 bits), the other row bits, half of the vec8,
// slab.
uint block_k(uint q, uint rows) { return q / rows * 32 + (q / 2 & 3) * 8 + (q % rows) / (rows / 2) * 4; }
uint block_row(uint q, uint rows) { return ((q & 1) | (q / 8 % (rows / 16)) * 2) * 8; }
#endif

#if FRAGMENTS == 1
// Rows 2i and 2i + 1 of an mn-major operand change places in every other matrix, so that 16 invocations that write
// blocks meet all banks. Rows r and r + 8 of a k-major one in whole lines do in the second slab.
uint swapped(uint matrix, bool mn_major) { return !mn_major ? 0 : (matrix & 1) * 8; }
bool crossed(uint slab, bool mn_major) { return LINE == 8 && !mn_major && (slab & 1) != 0; }
// The place of the first 4 k of a vec8, in 8-byte words; the other 4 go 64 words further, to the next matrix.
uint vec8_place(uint q, uint rows) {
  const uint row = vec8_row(q, rows), slab = vec8_slab(q, rows);
  return (slab * (rows / 16) + row / 16) * 128 + (row % 8 * 4 + q % 4) * 2 +
      (LINE == 8 ? row / 8 & 1 ^ slab : row / 8 & 1);
}
uint block_place(uint q, uint rows) {  // of the first row; the others follow 8 words apart
  const uint row8 = block_row(q, rows) / 8;
  return swapped(row8 / 2, true) + (q / rows * (rows / 16) + row8 / 2) * 128 + (q % rows) / (rows / 2) * 64 +
      (q / 2 & 3) * 2 + (row8 & 1);
}
#endif

// The row that is loaded for row r of a tile: the last one past it, and the first one before it if tiles begin there.
#if ROW_CLASSES
#define INSIDE(r, bounds) clamp(r, bounds.y, bounds.x)
#define LAST(bounds) bounds.x
#else
#define INSIDE(r, last) min(r, last)
#define LAST(last) last
#endif

// Registers decide how the addresses of vec8s are made: there are just enough. `at` is this invocation's address, or
// the workgroup's if both operands are mn-major. `offset`: of a vec8's row, in vec8s (LINE 4), or of the invocation
// (blocks, in bytes).
const bool OWN = (!A_MN_MAJOR || !B_MN_MAJOR) && ADDRESSES == 0;
// Loads a step of an operand into `held`. The first vec8 is at `k` and `row`; `rest` elements remain of rows along a
// vec8.
#define LOAD(held, LOADS, ROWS, MN_MAJOR, VEC, at, offset, row, last, k, ld, rest, PAIR, CHECK)                        \
  if (!MN_MAJOR) {                                                                                                    \
    UN for (uint i = 0; i < LOADS; ++i) {                                                                             \
      const uint further = PAIR ? pair_ahead(i) : vec8_row(i * LOCAL, ROWS), r = row + further;                       \
      const uint ahead = LINE == 8 ? 0 : vec8_slab(i * LOCAL, ROWS) * 32;                                             \
      const uint64_t from =                                                                                           \
          ADDRESSES != 0 ? at + uint64_t(offset[0] + (further * (uint(ld) / 16) + ahead / 8)) * 16                    \
          : LINE == 8    ? at + uint64_t(!IS_RAGGED ? r : INSIDE(r, last)) * ld                               \
                         : at + uint64_t(offset[i % ROW_SETS(ROWS)]) * (2 * VEC) + ahead * 2;                         \
      const int valid = !(CHECK) ? 8 : int(k_end) - int(k + ahead);                                                   \
      held[i] = load8(from, valid, VEC);                                                                              \
      if (CHECK) held[i] = first_of(held[i], valid);                                                                  \
    }                                                                                                                 \
  } else {                                                                                                            \
    UN for (uint i = 0; i < LOADS; ++i) {                                                                             \
      const uint ahead = FRAGMENTS == 1 ? block_k(i / 4 * LOCAL, ROWS) + i % 4 : block_k(i * LOCAL, ROWS);            \
      const uint64_t from = OWN ? at + ld * ahead : at + ld * ahead + offset[0];                                      \
      held[i] = load8(from, !(CHECK) || k + ahead < k_end ? rest : 0, VEC);                                           \
    }                                                                                                                 \
  }
#define ROW_SETS(ROWS) (ROWS * 4 / LOCAL)

#if FRAGMENTS == 1
#define PUT(held, LOADS, ROWS, MN_MAJOR, TILE, PITCH, PAIR)  \
  if (PAIR) { \
    UN for (uint i = 0; i < LOADS; i += 2) {                                                                          \
      const uint row = pair_row(t) + pair_ahead(i);                                                                   \
      const uint place = TILE + ((t >> 3 & 1) * (ROWS / 16) + row / 16) * 128 + (row % 8 * 4 + t % 4) * 2;            \
      tiles[place] = uvec2(held[i].x, held[i + 1].x);                                                                 \
      tiles[place + 1] = uvec2(held[i].y, held[i + 1].y);                                                             \
      tiles[place + 64] = uvec2(held[i].z, held[i + 1].z);                                                            \
      tiles[place + 65] = uvec2(held[i].w, held[i + 1].w);                                                            \
    }                                                                                                                 \
  } else if (!MN_MAJOR) { \
    UN for (uint i = 0; i < LOADS; ++i) {                                                                             \
      const uint place = TILE + vec8_place(i * LOCAL + t, ROWS);                                                      \
      tiles[place] = held[i].xy;                                                                                      \
      tiles[place + 64] = held[i].zw;                                                                                 \
    }                                                                                                                 \
  } else {                                                                                                            \
    UN for (uint i = 0; i < LOADS / 4; ++i) {                                                                         \
      const uint place = TILE + block_place(i * LOCAL + t, ROWS);                                                     \
      UN for (uint w = 0; w < 4; ++w) {                                                                               \
        const uint x = held[4 * i][w], y = held[4 * i + 1][w], z = held[4 * i + 2][w], u = held[4 * i + 3][w];        \
        tiles[place + 16 * w] = uvec2(x & 0xffffu | y << 16, z & 0xffffu | u << 16);                                  \
        tiles[(place ^ 8) + 16 * w] = uvec2(x >> 16 | y & 0xffff0000u, z >> 16 | u & 0xffff0000u);                    \
      }                                                                                                               \
    }                                                                                                                 \
  }
#else
#define PUT(held, LOADS, ROWS, MN_MAJOR, TILE, PITCH, PAIR)  \
  UN for (uint i = 0; i < LOADS; ++i) {                                                                               \
    const uint q = i * LOCAL + t;                                                                                     \
    if (!MN_MAJOR) tiles[TILE + vec8_row(q, ROWS) * PITCH + vec8_slab(q, ROWS) * 4 + q % 4] = held[i];                \
    else tiles[TILE + block_k(q, ROWS) * PITCH + block_row(q, ROWS) / 8] = held[i];                                   \
  }
#endif

// An invocation's place in an operand, in the step that is loaded first. The last vec8 that is read along m or n is the
// one with the last row. Sums of rows past it are not stored.
#define START(ROWS, MN_MAJOR, VEC, at, offset, row, last, k, ld, rest, row0)                                           \
  if (!MN_MAJOR && ADDRESSES != 0) {                                                                                  \
    at += row0 * ld + k_first * 2;                                                                                    \
    offset[0] = row * (uint(ld) / 16) + k / 8;                                                                        \
  } else if (!MN_MAJOR) {                                                                                             \
    at += row0 * ld + (k_first + k) * 2;                                                                              \
    UN for (uint i = 0; i < ROW_SETS(ROWS); ++i) {                                                                    \
      const uint r = vec8_row(i * LOCAL + t, ROWS);                                                                   \
      offset[i] = (!IS_RAGGED ? r : INSIDE(r, last)) * (uint(ld) / (2 * VEC));                                        \
    }                                                                                                                 \
  } else {                                                                                                            \
    if (VEC != 8) rest = int(LAST(last) + 1) - int(row);                                                              \
    offset[0] = uint(k * ld) + (!IS_RAGGED || VEC != 8 ? row : min(row, LAST(last) & ~7u)) * 2;                       \
    at += ld * k_first + row0 * 2 + (OWN ? offset[0] : 0);                                                            \
  }                                                                                                                   \
  k += k_first;
#endif

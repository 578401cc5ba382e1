#pragma aule inline
// The body of gemm_coopmat.comp and of shaders/quantized/gemm_quantized.comp: all but pragmas, constants and Params. A
// kernel with OWN_B decodes b: PREPARE, START_B, LOAD_STEP_B, PUT_STEP_B and NEXT_B are its own.
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec16b { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Vec8b { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Float2Ref { vec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer FloatsRef { float v[]; };

#define UN [[unroll]]
#define MatA coopmat<T, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseA>
#define MatB coopmat<T, gl_ScopeSubgroup, MAT_N, MAT_N, gl_MatrixUseB>
#define Acc coopmat<float, gl_ScopeSubgroup, MAT_M, MAT_N, gl_MatrixUseAccumulator>

#ifdef T_bfloat16_t
const int DTYPE = AULE_DT_BF16;
T low(uint w) { return uintBitsToBFloat16EXT(unpack16(w)).x; }
T high(uint w) { return uintBitsToBFloat16EXT(unpack16(w)).y; }
uint pack(float x, float y) { return float_to_bf16(x) | float_to_bf16(y) << 16; }  // NVIDIA's own conversion truncates
vec2 unpack(uint w) { return vec2(uintBitsToFloat(w << 16), uintBitsToFloat(w & 0xffff0000u)); }
#else
const int DTYPE = AULE_DT_F16;
T low(uint w) { return unpackFloat2x16(w).x; }
T high(uint w) { return unpackFloat2x16(w).y; }
uint pack(float x, float y) { return packFloat2x16(f16vec2(T(x), T(y))); }
vec2 unpack(uint w) { return vec2(unpackFloat2x16(w)); }
#endif

const uint FM = WM / MAT_M, FN = WN / MAT_N;
const uint SUBGROUPS = (BM / WM) * (BN / WN);
const uint A_LOADS = BM * BK / 8 / LOCAL, B_LOADS = BN * BK / 8 / LOCAL;  // per invocation

#if FRAGMENTS == 1
shared uvec2 tiles[SHARES == 2 ? 1 : (BM + BN) * BK / 4];
const uint A_TILE = 0, B_TILE = BM * BK / 4;
#else
const uint A_PITCH = (!A_MN_MAJOR ? BK : BM) / 8 + 1, B_PITCH = (!B_MN_MAJOR ? BK : BN) / 8 + 1;  // in vec8s
const uint A_TILE = 0, B_TILE = (!A_MN_MAJOR ? BM : BK) * A_PITCH;
shared uvec4 tiles[SHARES == 2 ? 1 : B_TILE + (!B_MN_MAJOR ? BN : BK) * B_PITCH];
#endif
#if FRAGMENTS == 0
const uint STAGING_COLUMNS = 2 * MAT_N;
shared float fragment_staging[SUBGROUPS * MAT_M * STAGING_COLUMNS];
#endif

#include "matmul/loader.glsl"
#include "matmul/mainloop.glsl"
#include "matmul/tile_order.glsl"

#if FRAGMENTS
#include "matmul/transpose4.glsl"
#define FILL(m, u, w) { m[0] = low(u.x); m[1] = high(u.x); m[2] = low(u.y); m[3] = high(u.y); \
                        m[4] = low(w.x); m[5] = high(w.x); m[6] = low(w.y); m[7] = high(w.y); }
#endif

#include "matmul/coopmat_epilogue.glsl"

// Fragments of the step in shared memory: `s` counts matrices along k.
#if FRAGMENTS == 1
#define MATRICES_OF_STEP BK / 16
#ifndef OWN_B_LANE
#define OWN_B_LANE(of) (of)
#endif
#define LOAD_A(fragment, i, s)                                                                                        \
  const uint row = subgroup_m * FM + i, o = A_TILE + (s / 2 * (BM / 16) + row) * 128 + s % 2 * 64 +                    \
      (lane * 2 ^ swapped(row, A_MN_MAJOR));                                                                           \
  const uvec2 u = tiles[o], w = tiles[o + 1];                                                                         \
  const uvec2 upper = uvec2(u.x, w.x), lower = uvec2(u.y, w.y);  /* rows, of pairs */                                 \
  if (PAIRED) FILL(fragment, upper, lower)                                                                            \
  else if (crossed(s / 2, A_MN_MAJOR)) FILL(fragment, w, u) else FILL(fragment, u, w)
#define LOAD_B(fragment, j, s)                                                                                        \
  const uint col = subgroup_n * FN + j, o = B_TILE + (s / 2 * (BN / 16) + col) * 128 + s % 2 * 64 +                    \
      (OWN_B_LANE(lane) * 2 ^ swapped(col, B_MN_MAJOR));                                                              \
  const uvec2 u = tiles[o], w = tiles[o + 1];                                                                         \
  if (crossed(s / 2, B_MN_MAJOR)) FILL(fragment, w, u) else FILL(fragment, u, w)
#else
#define MATRICES_OF_STEP BK / MAT_N
#define LOAD_A(fragment, i, s)                                                                                        \
  const uint row = subgroup_m * WM + i * MAT_M;                                                                        \
  if (!A_MN_MAJOR) coopMatLoad(fragment, tiles, A_TILE + row * A_PITCH + s * MAT_N / 8, A_PITCH,                      \
      gl_CooperativeMatrixLayoutRowMajor);                                                                            \
  else coopMatLoad(fragment, tiles, A_TILE + s * MAT_N * A_PITCH + row / 8, A_PITCH,                                  \
      gl_CooperativeMatrixLayoutColumnMajor);
#define LOAD_B(fragment, j, s)                                                                                        \
  const uint col = subgroup_n * WN + j * MAT_N;                                                                        \
  if (!B_MN_MAJOR) coopMatLoad(fragment, tiles, B_TILE + col * B_PITCH + s * MAT_N / 8, B_PITCH,                      \
      gl_CooperativeMatrixLayoutColumnMajor);                                                                         \
  else coopMatLoad(fragment, tiles, B_TILE + s * MAT_N * B_PITCH + col / 8, B_PITCH,                                  \
      gl_CooperativeMatrixLayoutRowMajor);
#endif

uint lane, subgroup, subgroup_m, subgroup_n;
Acc acc[FM][FN];
uint row0, col0;
uint64_t c, out_, residual, partial;
#if ROW_CLASSES
// Rows of a class are equal modulo 8. Eight neighbours among the row tiles are the classes of the same rows, and begin
// at row M0 of their class and `before` columns to the left of n0.
#define TILES_M (p.m + 8 * BM - 1) / (8 * BM) * 8
#define TILES_N (p.n + 7 + BN - 1) / BN
#define M0 first_row
#define ROW_BYTES 16
#define ROW_OF(r) (r) * 8 + row_class
#define COLUMNS_BEFORE - before
#define Bounds uvec2
#define ENTER_CLASS                                                                                                   \
  row_class = tile_m / BM % 8;                                                                                        \
  first_row = tile_m / BM / 8 * BM;                                                                                   \
  class_rows = (p.m + 7 - row_class) / 8;                                                                             \
  before = (uint(address(p.out_, int64_t(batch) * p.out_batch + int64_t(row_class) * p.out_m)) & 15u) / 2;            \
  if (first_row >= class_rows || tile_n >= p.n + before) return;  /* the whole workgroup leaves */
#define BOUNDS                                                                                                        \
  a_at += a_ld / 8 * row_class;                                                                                       \
  b_at -= b_ld * before;                                                                                              \
  a_last = uvec2(class_rows - M0 - 1, 0);                                                                             \
  b_last = uvec2(p.n + before - tile_n - 1, tile_n == 0 ? before : 0);
uint row_class, first_row, class_rows, before;
#else
#define TILES_M (p.m + BM - 1) / BM
#define TILES_N (p.n + BN - 1) / BN
#define M0 tile_m
#define ROW_BYTES 2
#define ROW_OF(r) r
#define COLUMNS_BEFORE
#define Bounds uint
#define ENTER_CLASS
#define BOUNDS                                                                                                        \
  a_last = p.m - tile_m - 1;                                                                                          \
  b_last = p.n - tile_n - 1;
#endif

uint row_from, col_from;  // MOVES_LAST: what is stored begins there
#define FIRST_OF(start, size, all) ((start) + (size) == (all) ? ((all) - 1) / (size) * (size) : (start))
#define STORES(row, col) (!MOVES_LAST || ((row) >= row_from && (col) >= col_from))

// The epilogue: lanes exchange what they hold, or subgroups put it into the staging memory.
#if FRAGMENTS
void store_result() {
  UN for (uint i = 0; i < FM; ++i) {
    UN for (uint j = 0; j < FN; j += 2) {
      UN for (uint h = 0; h < 2; ++h) {
        const uint row = ROW_OF(row0 + i * 16 + h * 8 + lane / 4), e = h * 4;
        if (OUT_VEC == 0) {
          UN for (uint w = 0; w < 4; ++w) {
            const uint col = col0 + j * 16 + w * 8 + lane % 4 * 2, x = e + w % 2 * 2;
            const vec2 v = w < 2 ? vec2(acc[i][j][x], acc[i][j][x + 1]) : vec2(acc[i][j + 1][x], acc[i][j + 1][x + 1]);
            const uint64_t at = partial + (uint64_t(row) * p.n + col) * 4;
            const bool stores = row < p.m && STORES(row, col);
            if (stores && p.n % 2 == 0 && col < p.n) Float2Ref(at).v = v;
            if (stores && p.n % 2 != 0 && col < p.n) F32Ref(at).v = v.x;
            if (stores && p.n % 2 != 0 && col + 1 < p.n) F32Ref(at + 4).v = v.y;
          }
        } else {
          const uint col = col0 + j * 16 + lane % 4 * 8;
          vec2 v[4];
          UN for (uint w = 0; w < 4; ++w) {
            const uint x = e + w % 2 * 2;
            v[w] = p.alpha * (w < 2 ? vec2(acc[i][j][x], acc[i][j][x + 1]) :
                vec2(acc[i][j + 1][x], acc[i][j + 1][x + 1]));
          }
          if (C_VEC != 0) {
            const uvec4 added = transpose4(load_c(c, row, col));
            UN for (uint w = 0; w < 4; ++w) v[w] += p.beta * unpack(added[w]);
          }
          if (ACTIVATION != 0) {
            UN for (uint w = 0; w < 4; ++w) v[w] = activate2(v[w]);
          }
          if (RESIDUAL) {
            const uvec4 added = transpose4(load_residual(residual, row, col));
            UN for (uint w = 0; w < 4; ++w) v[w] += unpack(added[w]);
          }
          const uvec4 packed = transpose4(uvec4(pack(v[0].x, v[0].y), pack(v[1].x, v[1].y), pack(v[2].x, v[2].y),
              pack(v[3].x, v[3].y)));
          if (STORES(row, col)) store_out(out_, row, col, packed);
        }
      }
    }
  }
}
#else
void store_result() {
  const uint mine = subgroup * MAT_M * STAGING_COLUMNS, lanes = SHARES == 2 ? LOCAL : LOCAL / SUBGROUPS;
  UN for (uint i = 0; i < FM; ++i) {
    UN for (uint j = 0; j < FN; j += 2) {
      coopMatStore(acc[i][j], fragment_staging, mine, STAGING_COLUMNS, gl_CooperativeMatrixLayoutRowMajor);
      coopMatStore(acc[i][j + 1], fragment_staging, mine + MAT_N, STAGING_COLUMNS, gl_CooperativeMatrixLayoutRowMajor);
      barrier();  // the staging memory is written
      for (uint q = lane; q < MAT_M * STAGING_COLUMNS / 8; q += lanes) {
        const uint inner = q % (STAGING_COLUMNS / 8) * 8, row = ROW_OF(row0 + i * MAT_M + q / (STAGING_COLUMNS / 8)),
            col = col0 + j * MAT_N + inner;
        const uint from = mine + q / (STAGING_COLUMNS / 8) * STAGING_COLUMNS + inner;
        if (OUT_VEC == 0) {
          UN for (uint x = 0; x < 8; ++x)
            if (row < p.m && col + x < p.n && STORES(row, col))
              F32Ref(partial + (uint64_t(row) * p.n + col + x) * 4).v = fragment_staging[from + x];
        } else {
          const uvec4 added = C_VEC != 0 ? load_c(c, row, col) : uvec4(0);
          const uvec4 after = RESIDUAL ? load_residual(residual, row, col) : uvec4(0);
          uvec4 packed;
          UN for (uint w = 0; w < 4; ++w) {
            vec2 v = p.alpha * vec2(fragment_staging[from + 2 * w], fragment_staging[from + 2 * w + 1]);
            if (C_VEC != 0) v += p.beta * unpack(added[w]);
            if (ACTIVATION != 0) v = activate2(v);
            if (RESIDUAL) v += unpack(after[w]);
            packed[w] = pack(v.x, v.y);
          }
          if (STORES(row, col)) store_out(out_, row, col, packed);
        }
      }
      barrier();  // and read
    }
  }
}
#endif

// A slab holds the sums of a part of k as the lanes hold them. A share of tile T by workgroup W is slab T + W, both
// counted from the first tile that is shared.
#define SLAB_MATRIX ((subgroup_m * FM + i) * (BN / MAT_N) + subgroup_n * FN + j)
#if FRAGMENTS
#define EACH_SLAB_ELEMENT(slab)                                                                                       \
  const uint64_t place = slab + (SLAB_MATRIX * 2 + h) * 512 + lane * 16;                                               \
  const uint e = h * 4;
void store_slab(uint64_t slab) {
  UN for (uint i = 0; i < FM; ++i)
    UN for (uint j = 0; j < FN; ++j)
      UN for (uint h = 0; h < 2; ++h) {
        EACH_SLAB_ELEMENT(slab)
        F32x4Ref(place).v = vec4(acc[i][j][e], acc[i][j][e + 1], acc[i][j][e + 2], acc[i][j][e + 3]);
      }
}
void add_slab(uint64_t slab) {
  UN for (uint i = 0; i < FM; ++i)
    UN for (uint j = 0; j < FN; ++j)
      UN for (uint h = 0; h < 2; ++h) {
        EACH_SLAB_ELEMENT(slab)
        const vec4 v = F32x4Ref(place).v;
        UN for (uint x = 0; x < 4; ++x) acc[i][j][e + x] += v[x];
      }
}
#else
#define EACH_SLAB_MATRIX(slab) const uint64_t place = slab + SLAB_MATRIX * MAT_M * MAT_N * 4;
void store_slab(uint64_t slab) {
  UN for (uint i = 0; i < FM; ++i)
    UN for (uint j = 0; j < FN; ++j) {
      EACH_SLAB_MATRIX(slab)
      coopMatStore(acc[i][j], FloatsRef(place).v, 0, MAT_N, gl_CooperativeMatrixLayoutRowMajor);
    }
}
void add_slab(uint64_t slab) {
  UN for (uint i = 0; i < FM; ++i)
    UN for (uint j = 0; j < FN; ++j) {
      EACH_SLAB_MATRIX(slab)
      Acc more;
      coopMatLoad(more, FloatsRef(place).v, 0, MAT_N, gl_CooperativeMatrixLayoutRowMajor);
      acc[i][j] += more;
    }
}
#endif
uint64_t slab_of(uint tile, uint workgroup) { return p.slabs + uint64_t(tile + workgroup) * (BM * BN * 4); }
bool is_shared(uint begin, uint steps) { return begin / p.share != (begin + steps - 1) / p.share; }
// In the order of k.
void add_shares(uint tile) {
  const uint steps = (p.k + BK - 1) / BK, last = (tile * steps + steps - 1) / p.share;
  for (uint w = tile * steps / p.share; w <= last; ++w) {
    const uint64_t slab = slab_of(tile, w);
    add_slab(slab);
  }
}

void clear() {
  UN for (uint i = 0; i < FM; ++i)
    UN for (uint j = 0; j < FN; ++j) acc[i][j] = Acc(0.0);
}

// The steps of a tile that are multiplied, from `first` on. `to`: the slab for their sums, 0 for a whole tile.
uint index, first, count;
uint64_t to;
uint tile_m, tile_n, batch, product, k_begin, k_end, k_first;
// The loads of this invocation.
const uint A_SETS = ROW_SETS(BM), B_SETS = ROW_SETS(BN);
uint64_t a_at, b_at, a_ld, b_ld;
uint a_row, b_row, a_k, b_k, a_offset[A_SETS], b_offset[B_SETS];
int a_rest, b_rest;
Bounds a_last, b_last;
uvec4 held_a[A_LOADS], held_b[B_LOADS];
#ifndef OWN_B
#define PREPARE
#define LOAD_STEP_B(CHECK)                                                                                            \
  LOAD(held_b, B_LOADS, BN, B_MN_MAJOR, B_VEC, b_at, b_offset, b_row, b_last, b_k, b_ld, b_rest, false, CHECK)
#define PUT_STEP_B PUT(held_b, B_LOADS, BN, B_MN_MAJOR, B_TILE, B_PITCH, false)
#define START_B START(BN, B_MN_MAJOR, B_VEC, b_at, b_offset, b_row, b_last, b_k, b_ld, b_rest, tile_n)
#define NEXT_B                                                                                                        \
  if (!B_MN_MAJOR && ADDRESSES == 2) b_offset[0] += BK / 8; else b_at += !B_MN_MAJOR ? BK * 2 : b_ld * BK;            \
  b_k += BK;
#endif
#define LOAD_BOTH(CHECK)                                                                                              \
  LOAD(held_a, A_LOADS, BM, A_MN_MAJOR, A_VEC, a_at, a_offset, a_row, a_last, a_k, a_ld, a_rest, PAIRED, CHECK)        \
  LOAD_STEP_B(CHECK)

void begin_segment() {
  const uint t = gl_LocalInvocationID.x, tiles_m = TILES_M, tiles_n = TILES_N, per_product = tiles_m * tiles_n;
  const uint inside_product = index % per_product;
  product = index / per_product;
  batch = product % p.batches;
  PLACE_TILE(inside_product, BAND, BM, BN)
  tile_m = MOVES_LAST ? min(m0, p.m - BM) : m0;
  tile_n = MOVES_LAST ? min(n0, p.n - BN) : n0;
  ENTER_CLASS
  k_begin = min(first * BK, p.k);
  k_end = min(k_begin + count * BK, p.k);
  k_first = K_CHECKS == 2 ? k_begin + (k_end - k_begin - 1) / BK * BK : k_begin;
  a_ld = uint64_t(uint(!A_MN_MAJOR ? p.a_m : p.a_k)) * ROW_BYTES;
  b_ld = uint64_t(uint(!B_MN_MAJOR ? p.b_n : p.b_k)) * 2;
  a_at = address(p.a, int64_t(batch) * p.a_batch);
  b_at = address(p.b, int64_t(batch) * p.b_batch);
  a_row = PAIRED ? pair_row(t) : !A_MN_MAJOR ? vec8_row(t, BM) : block_row(t, BM);
  b_row = !B_MN_MAJOR ? vec8_row(t, BN) : block_row(t, BN);
  BOUNDS
  a_k = PAIRED ? (t & 3) * 8 + (t >> 3 & 1) * 32 : !A_MN_MAJOR ? t % LINE * 8 : block_k(t, BM);
  b_k = !B_MN_MAJOR ? t % LINE * 8 : block_k(t, BN);
  a_rest = b_rest = 8;
  START(BM, A_MN_MAJOR, A_VEC, a_at, a_offset, a_row, a_last, a_k, a_ld, a_rest, M0)
  START_B
}

void load_first_step() {
  LOAD_BOTH(K_CHECKS != 0)
  // The last step along k was loaded first. The others are loaded from k_begin on: this leads to a step before it. A
  // single step is not the short one, or one before it is loaded again.
  if (K_CHECKS == 2) {
    const uint back = k_first > k_begin ? k_first - k_begin + BK : min(k_begin, BK);
    a_at -= back * (!A_MN_MAJOR ? uint64_t(2) : a_ld);
    b_at -= back * (!B_MN_MAJOR ? uint64_t(2) : b_ld);
  }
}

void next_step() {
  if (!A_MN_MAJOR && ADDRESSES == 2) a_offset[0] += BK / 8; else a_at += !A_MN_MAJOR ? BK * 2 : a_ld * BK;
  a_k += BK;
  NEXT_B
}

// A workgroup's share: of the steps of shared tiles, counted one tile after the other, those from `at` to `end`.
uint at, end;
void take_segment() {
  const uint steps = (p.k + BK - 1) / BK;
  index = at / steps;
  first = at % steps;
  count = min(steps - first, end - at);
  to = count == steps ? 0 : slab_of(index - p.whole, linear_group() - p.whole);
  at += count;
}

void main() {
  const uint t = gl_LocalInvocationID.x, group = linear_group(), steps = (p.k + BK - 1) / BK;
  const uint rows_of_tiles = TILES_M, columns_of_tiles = TILES_N, all = rows_of_tiles * columns_of_tiles * p.batches;
  PREPARE
  lane = gl_SubgroupInvocationID;
  subgroup = SHARES == 2 ? group % SUBGROUPS : gl_SubgroupID;
  subgroup_m = subgroup % (BM / WM);
  subgroup_n = subgroup / (BM / WM);
  if (SHARES == 0) {
    const uint per_split = (steps + p.splits - 1) / p.splits;
    if (group >= all * p.splits) return;  // the whole workgroup leaves
    index = group;
    first = group / all * per_split;
    count = per_split;
    to = 0;
  } else if (SHARES == 1) {
    at = group < p.whole ? group * steps : p.whole * steps + (group - p.whole) * p.share;
    end = min(at + (group < p.whole ? steps : p.share), all * steps);
    if (at >= end) return;
  } else {
    index = p.whole + group / SUBGROUPS;
    // A tile of one share is stored already.
    if (index >= all || !is_shared((index - p.whole) * steps, steps)) return;
    first = count = 0;
    to = 0;
  }
  [[dont_unroll]] do {
    if (SHARES == 1) take_segment();
    begin_segment();
    clear();
    if (SHARES == 2) {
      add_shares(index - p.whole);
    } else {
      load_first_step();
    }
    [[dont_unroll]] for (uint k = k_begin; k < k_end; k += BK) {
      PUT(held_a, A_LOADS, BM, A_MN_MAJOR, A_TILE, A_PITCH, PAIRED)
      PUT_STEP_B
      barrier();  // this step's tiles are written
      if (K_CHECKS == 1 || k + BK < k_end) {
        next_step();
      }
      LOAD_BOTH(K_CHECKS == 1)  // without checks there is nothing to load past the last step: it is loaded again
      MULTIPLY_STEP(MATRICES_OF_STEP, ++s)
      barrier();  // the tiles are read before the next step overwrites them
    }
    if (to != 0) {
      store_slab(to);
    } else {
      row_from = FIRST_OF(tile_m, BM, p.m);
      col_from = FIRST_OF(tile_n, BN, p.n);
      row0 = M0 + subgroup_m * WM;
      col0 = tile_n + subgroup_n * WN COLUMNS_BEFORE;
      c = address(p.c, int64_t(batch) * p.c_batch);
      out_ = address(p.out_, int64_t(batch) * p.out_batch);
      residual = address(p.residual, int64_t(batch) * p.out_batch);
      partial = p.out_ + uint64_t(product) * p.m * p.n * 4;
      store_result();
    }
  } while (SHARES == 1 && at < end);
}

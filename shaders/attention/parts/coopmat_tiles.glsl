#pragma aule inline
// Rows on their way between memory and the cooperative-matrix kernels.
//
// Tiles: TILE rows each of a first operand (head size D: K, or Q in dK/dV) and a second one (DV: V, or dO). fetch_*
// loads them into registers and put_* writes them to shared memory, so loads are in flight while a tile is worked on.
// Stationary operands: FETCH_ROWS, then ROWS_TO_FRAGMENTS through the fragment staging. Results: STORE_ROWS.
#ifndef AULE_ATTENTION_COOPMAT_TILES_GLSL
#define AULE_ATTENTION_COOPMAT_TILES_GLSL

const int LOADS_A = (TILE * VEC8S + LOCAL - 1) / LOCAL, LOADS_B = (TILE * VEC8S_V + LOCAL - 1) / LOCAL;
const bool WHOLE_A = TILE * VEC8S % LOCAL == 0, WHOLE_B = TILE * VEC8S_V % LOCAL == 0;
const int TILE_A = TILE * PITCH;               // start of the second operand
const int STAGE_SIZE = TILE_A + TILE * PITCH_V;
const int TILES_SIZE = STAGES * STAGE_SIZE, ALL_STAGING_SIZE = SUBGROUPS * STAGING_SIZE;
shared uvec4 tiles[TILES_SIZE > ALL_STAGING_SIZE ? TILES_SIZE : ALL_STAGING_SIZE];
// Shared arrays are multiples of 16 bytes, since matrix accesses to the arrays behind them must be aligned to that. A
// driver gives an unused array one float (suspected when gradients with unknown layout were wrong on an H200).
shared T transpose_scratch[ACC_IS_A_OPERAND ? 8 : SUBGROUPS * 2 * TRANSPOSE_SIZE];  // two of each subgroup
#ifdef EXCHANGE_SIZE
// Elements of accumulators that subgroups with common rows send each other, in the order of their lanes.
shared uvec4 exchange[ROLE_SPLIT == 1 ? 1 : EXCHANGE_SIZE];
#endif
#define SENT_BITS(j) floatBitsToUint(vec4(sent[4 * (j)], sent[4 * (j) + 1], sent[4 * (j) + 2], sent[4 * (j) + 3]))
// FIRST in role 0, SECOND in role 1. By bits: NVIDIA's compiler makes a branch of a conditional, and accumulators go to
// memory if their elements meet a branch.
#define BY_ROLE(FIRST, SECOND)                                                                                         \
  uintBitsToFloat((floatBitsToUint(FIRST) & uint(role - 1)) | (floatBitsToUint(SECOND) & ~uint(role - 1)))

uint transpose_at(int which) { return uint((int(gl_SubgroupID) * 2 + which) * TRANSPOSE_SIZE); }
uint pack_pair(T a, T b) {
#ifdef T_bfloat16_t
  return floatBitsToUint(float(a)) >> 16 | (floatBitsToUint(float(b)) & 0xffff0000u);
#else
  return packHalf2x16(vec2(float(a), float(b)));
#endif
}
uint pack_two(T a, T b) {
#ifdef T_bfloat16_t
  return pack_pair(a, b);
#else
  return packFloat2x16(f16vec2(a, b));
#endif
}
uvec4 transpose_vec8(int which, int row, int column) {
  const uint at = transpose_at(which) + uint(row * TRANSPOSE_PITCH + column);
  return uvec4(pack_pair(transpose_scratch[at], transpose_scratch[at + 1]),
               pack_pair(transpose_scratch[at + 2], transpose_scratch[at + 3]),
               pack_pair(transpose_scratch[at + 4], transpose_scratch[at + 5]),
               pack_pair(transpose_scratch[at + 6], transpose_scratch[at + 7]));
}
// PUT_A sets element e of the accumulator-shaped A operand M. After all elements, TAKE_A completes M. WHICH: its
// scratch, 0 or 1.
#define PUT_A(M, WHICH, e, x)                                                                                          \
  {                                                                                                                    \
    if (ACC_IS_A_OPERAND) M[NIBBLE(ELEM_OF_A, e)] = T(x);                                                              \
    else transpose_scratch[transpose_at(WHICH) +                                                                       \
        uint((lane_row() + NIBBLE(ELEM_ROWS, e)) * TRANSPOSE_PITCH + lane_col() +                                      \
        NIBBLE(ELEM_COLS, e))] = T(x);                                                                                 \
  }
#define TAKE_A(M, WHICH)                                                                                               \
  if (!ACC_IS_A_OPERAND) {                                                                                             \
    WAIT_FOR_SUBGROUP                                                                                                  \
    coopMatLoad(M, transpose_scratch, transpose_at(WHICH), uint(TRANSPOSE_PITCH), ROW_MAJOR);                          \
    WAIT_FOR_SUBGROUP                                                                                                  \
  }

uvec4 next_a[LOADS_A], next_b[LOADS_B];
uint64_t a_base, b_base;
int tile_last;  // the last row that exists
#define FIRST_ROW(tile) (MOVES_LAST_TILE ? min((tile) * TILE, tile_last + 1 - TILE) : (tile) * TILE)
const bool CLAMPS_ROWS = !(WHOLE_TILES || MOVES_LAST_TILE) || !ALIGNED || PADDED;
// Rows of results before this one are another workgroup's: MOVES_LAST_BLOCK.
#ifndef FIRST_STORED
#define FIRST_STORED 0
#endif

// Offset of load i of a tile, in bytes from the head: 32 bits, and sums of constants if the row's bytes allow. A clamp
// for each row and row bytes that are no constants take 5 % of causal D 64 on an H200.
#define TILE_OFFSET(tile, i, ROW_BYTES, COUNT)                                                                         \
  ((MOVES_LAST_TILE ? uint(FIRST_ROW(tile)) * uint(ROW_BYTES) : uint(tile) * uint(TILE * ROW_BYTES)) +                 \
   (ROW_BYTES == COUNT * 16 ? gl_LocalInvocationIndex * 16u + uint((i) * LOCAL * 16)                                   \
    : LOCAL % COUNT == 0                                                                                               \
        ? gl_LocalInvocationIndex / COUNT * uint(ROW_BYTES) + gl_LocalInvocationIndex % COUNT * 16u +                  \
            uint((i) * (LOCAL / COUNT) * ROW_BYTES)                                                                    \
        : (gl_LocalInvocationIndex + (i) * LOCAL) / COUNT * uint(ROW_BYTES) +                                          \
            (gl_LocalInvocationIndex + (i) * LOCAL) % COUNT * 16u))
// Start of a page, and the row within it.
#ifdef ATTENTION_PAGED
#define PAGE_BASE(BASE, STRIDE, row) (PAGED ? BASE + uint64_t(uint(page_of(row))) * uint64_t(STRIDE) * 2 : BASE)
#define PAGE_ROW(row) uint(PAGED ? (row) % PAGE : row)
#else
#define PAGE_BASE(BASE, STRIDE, row) BASE
#define PAGE_ROW(row) uint(row)
#endif
void fetch_a(int tile) {
  [[unroll]] for (int i = 0; i < LOADS_A; ++i) {
    const int e = int(gl_LocalInvocationIndex) + i * LOCAL;
    if (WHOLE_A || e < TILE * VEC8S) {
      if (!CLAMPS_ROWS)
        next_a[i] = Vec16bRef(a_base + uint64_t(TILE_OFFSET(tile, i, A_ROW_BYTES, VEC8S))).v;
      else {
        const int row = min(tile * TILE + e / VEC8S, tile_last);
        next_a[i] = load_vec8(PAGE_BASE(a_base, p.key_stride[0], row), PAGE_ROW(row) * uint(A_ROW_BYTES), e % VEC8S * 8,
            HEAD_DIM);
      }
    }
  }
}
void fetch_b(int tile) {
  [[unroll]] for (int i = 0; i < LOADS_B; ++i) {
    const int e = int(gl_LocalInvocationIndex) + i * LOCAL;
    if (WHOLE_B || e < TILE * VEC8S_V) {
      if (!CLAMPS_ROWS) next_b[i] = Vec16bRef(b_base +
          uint64_t(TILE_OFFSET(tile, i, B_ROW_BYTES, VEC8S_V))).v;
      else {
        const int row = min(tile * TILE + e / VEC8S_V, tile_last);
        next_b[i] = load_vec8(PAGE_BASE(b_base, p.value_stride[0], row), PAGE_ROW(row) * uint(B_ROW_BYTES),
            e % VEC8S_V * 8, V_DIM);
      }
    }
  }
}
void put_a(int stage) {
  [[unroll]] for (int i = 0; i < LOADS_A; ++i) {
    const int e = int(gl_LocalInvocationIndex) + i * LOCAL;
    if (WHOLE_A || e < TILE * VEC8S) tiles[stage * STAGE_SIZE + e / VEC8S * PITCH + e % VEC8S] = next_a[i];
  }
}
void put_b(int stage) {
  [[unroll]] for (int i = 0; i < LOADS_B; ++i) {
    const int e = int(gl_LocalInvocationIndex) + i * LOCAL;
    if (WHOLE_B || e < TILE * VEC8S_V) tiles[stage * STAGE_SIZE + TILE_A + e / VEC8S_V * PITCH_V + e % VEC8S_V] =
        next_b[i];
  }
}

// Rows pass the fragment staging in pieces of STAGING_COLS columns. The last piece may be narrower. In a piece, load i
// of a lane is number lane() + i * SUBGROUP of its vec8s, row after row: whole rows at a time, so that an access
// touches few lines of memory.
#define PIECES(WIDTH) (((WIDTH) + STAGING_COLS - 1) / STAGING_COLS)
#define PIECE_VEC8S(WIDTH, d) (((WIDTH) - (d) < STAGING_COLS ? (WIDTH) - (d) : STAGING_COLS) / 8)
// uvec4 LOADED[] := this subgroup's ROW_BLOCKS * MAT_M rows from row0 on, of WIDTH columns padded from DIM. Rows are
// clamped to LAST.
#define FETCH_ROWS(LOADED, BASE, ROW_BYTES, LAST, DIM, WIDTH)                                                          \
  uvec4 LOADED[ROW_BLOCKS * PIECES(WIDTH) * STAGING_LOADS];                                                            \
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)                                                                      \
    [[unroll]] for (int d = 0; d < (WIDTH); d += STAGING_COLS)                                                         \
      [[unroll]] for (int i = 0; i < STAGING_LOADS; ++i) {                                                             \
        const int n = PIECE_VEC8S(WIDTH, d), e = lane() + i * SUBGROUP;                                                \
        if (i * SUBGROUP < MAT_M * n)                                                                                  \
          LOADED[(r * PIECES(WIDTH) + d / STAGING_COLS) * STAGING_LOADS + i] =                                         \
              load_vec8(BASE, uint(min(row0 + r * MAT_M + e / n, LAST)) * ROW_BYTES, d + e % n * 8, DIM);              \
      }
// MatA FRAGMENT[ROW_BLOCKS * (WIDTH / MAT_N)] := LOADED. The fragment staging overlaps the tiles: a
// barrier() must follow.
#define ROWS_TO_FRAGMENTS(FRAGMENT, LOADED, WIDTH)                                                                     \
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)                                                                      \
    [[unroll]] for (int d = 0; d < (WIDTH); d += STAGING_COLS) {                                                       \
      [[unroll]] for (int i = 0; i < STAGING_LOADS; ++i) {                                                             \
        const int n = PIECE_VEC8S(WIDTH, d), e = lane() + i * SUBGROUP;                                                \
        if (e < MAT_M * n)                                                                                             \
          tiles[staging + e / n * STAGING_PITCH + e % n] =                                                             \
              LOADED[(r * PIECES(WIDTH) + d / STAGING_COLS) * STAGING_LOADS + i];                                      \
      }                                                                                                                \
      WAIT_FOR_SUBGROUP                                                                                                \
      [[unroll]] for (int i = 0; i < STAGING_COLS / MAT_N; ++i)                                                        \
        if (d + i * MAT_N < (WIDTH))                                                                                   \
          coopMatLoad(FRAGMENT[r * ((WIDTH) / MAT_N) + d / MAT_N + i], tiles, uint(staging + i * MAT_N / 8),           \
              uint(STAGING_PITCH), ROW_MAJOR);                                                                         \
      WAIT_FOR_SUBGROUP                                                                                                \
    }
// The same fragments straight from memory (FROM_GLOBAL). Loads take no registers on the way, which are few beside the
// accumulators.
#define LOAD_FRAGMENTS(FRAGMENT, BASE, STRIDE, WIDTH)                                                                  \
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)                                                                      \
    [[unroll]] for (int d = 0; d < (WIDTH); d += MAT_N)                                                                \
      coopMatLoad(FRAGMENT[r * ((WIDTH) / MAT_N) + d / MAT_N],                                                         \
                  ElemsRef(BASE + uint64_t(uint(row0 + r * MAT_M) * ((STRIDE) * 2u) + uint(d * 2))).v, 0u, STRIDE,     \
                      ROW_MAJOR);
// Rows of the accumulators ACCS times FACTOR(r, e), rounded, through the fragment staging: 16 bytes per lane. NVIDIA's
// compiler makes eight 2-byte stores per lane of a matrix store of 16-bit results to global memory. Without the opaque
// zero it finds that addresses of results are those of operands, and keeps them in registers through the loop between,
// where registers are few.
#define STORE_ROWS_AS_FRAGMENTS(ACCS, FACTOR, BASE, ROW_BYTES, LAST, DIM, WIDTH)                                       \
  {                                                                                                                    \
  const int later_staging = staging + OPAQUE_ZERO, later = lane() + OPAQUE_ZERO;                                       \
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)                                                                      \
    [[unroll]] for (int d = 0; d < (WIDTH); d += STAGING_COLS) {                                                       \
      [[unroll]] for (int i = 0; i < STAGING_COLS / MAT_N; ++i)                                                        \
        if (d + i * MAT_N < (WIDTH)) {                                                                                 \
          MatA result;                                                                                                 \
          [[unroll]] for (int e = 0; e < ELEMS; ++e)                                                                   \
            result[NIBBLE(ELEM_OF_A, e)] = nearest(ACCS[r * ((WIDTH) / MAT_N) + d / MAT_N + i][e] * FACTOR(r, e));     \
          coopMatStore(result, tiles, uint(later_staging + i * MAT_N / 8), uint(STAGING_PITCH), ROW_MAJOR);            \
        }                                                                                                              \
      WAIT_FOR_SUBGROUP                                                                                                \
      [[unroll]] for (int i = 0; i < STAGING_LOADS; ++i) {                                                             \
        const int n = PIECE_VEC8S(WIDTH, d), e = later + i * SUBGROUP, row = row0 + r * MAT_M + e / n;                 \
        if (e < MAT_M * n && row <= (LAST) && (!MOVES_LAST_BLOCK || row >= FIRST_STORED))                              \
          store_vec8(BASE, uint(row) * ROW_BYTES, d + e % n * 8, DIM,                                                  \
              tiles[later_staging + e / n * STAGING_PITCH + e % n]);                                                   \
      }                                                                                                                \
      WAIT_FOR_SUBGROUP                                                                                                \
    }                                                                                                                  \
  }
// The same through transpose_scratch, 16 columns at a time.
#define STORE_ROWS_TRANSPOSED(ACCS, FACTOR, BASE, ROW_BYTES, LAST, DIM, WIDTH)                                         \
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)                                                                      \
    [[unroll]] for (int c = 0; c < (WIDTH) / 16; ++c) {                                                                \
      [[unroll]] for (int i = 0; i < 16 / MAT_N; ++i)                                                                  \
        [[unroll]] for (int e = 0; e < ELEMS; ++e)                                                                     \
          transpose_scratch[transpose_at(0) +                                                                          \
              uint((lane_row() + NIBBLE(ELEM_ROWS, e)) * TRANSPOSE_PITCH + i * MAT_N + lane_col() +                    \
              NIBBLE(ELEM_COLS, e))] =                                                                                 \
              nearest(ACCS[r * ((WIDTH) / MAT_N) + c * (16 / MAT_N) + i][e] * FACTOR(r, e));                           \
      WAIT_FOR_SUBGROUP                                                                                                \
      [[unroll]] for (int i = 0; i < TRANSPOSE_LOADS; ++i) {                                                           \
        const int e = lane() + i * SUBGROUP, row = row0 + r * MAT_M + e / 2;                                           \
        if (row <= (LAST) && (TRANSPOSE_WHOLE || e < MAT_M * 2) && (!MOVES_LAST_BLOCK || row >= FIRST_STORED))         \
          store_vec8(BASE, uint(row) * ROW_BYTES, c * 16 + e % 2 * 8, DIM, transpose_vec8(0, e / 2, e % 2 * 8));       \
      }                                                                                                                \
      WAIT_FOR_SUBGROUP                                                                                                \
    }
// Float32 accumulators of unknown layout, through 16 columns of floats: SCRATCH from ORIGIN on, rows PITCH apart.
#define STORE_ROWS_OF_FLOATS(SCRATCH, ORIGIN, PITCH, ACCS, FACTOR, BASE, ROW_BYTES, LAST, DIM, WIDTH)                  \
  [[unroll]] for (int r = 0; r < ROW_BLOCKS; ++r)                                                                      \
    [[unroll]] for (int c = 0; c < (WIDTH) / 16; ++c) {                                                                \
      [[unroll]] for (int i = 0; i < 16 / MAT_N; ++i)                                                                  \
        coopMatStore(ACCS[r * ((WIDTH) / MAT_N) + c * (16 / MAT_N) + i], SCRATCH, (ORIGIN) + uint(i * MAT_N),          \
            uint(PITCH), ROW_MAJOR);                                                                                   \
      WAIT_FOR_SUBGROUP                                                                                                \
      [[unroll]] for (int i = 0; i < TRANSPOSE_LOADS; ++i) {                                                           \
        const int e = lane() + i * SUBGROUP, row = row0 + r * MAT_M + e / 2;                                           \
        if (row <= (LAST) && (TRANSPOSE_WHOLE || e < MAT_M * 2)) {                                                     \
          const uint at = (ORIGIN) + uint(e / 2 * (PITCH) + e % 2 * 8);                                                \
          uvec4 words;                                                                                                 \
          [[unroll]] for (int j = 0; j < 4; ++j)                                                                       \
            words[j] = pack_pair(nearest(SCRATCH[at + 2 * j] * (FACTOR)),                                              \
                                 nearest(SCRATCH[at + 2 * j + 1] * (FACTOR)));                                         \
          store_vec8(BASE, uint(row) * ROW_BYTES, c * 16 + e % 2 * 8, DIM, words);                                     \
        }                                                                                                              \
      }                                                                                                                \
      WAIT_FOR_SUBGROUP                                                                                                \
    }
#define STORE_ROWS(ACCS, FACTOR, BASE, ROW_BYTES, LAST, DIM, WIDTH)                                                    \
  if (ACC_IS_A_OPERAND) {                                                                                              \
    STORE_ROWS_AS_FRAGMENTS(ACCS, FACTOR, BASE, ROW_BYTES, LAST, DIM, WIDTH)                                           \
  } else {                                                                                                             \
    STORE_ROWS_TRANSPOSED(ACCS, FACTOR, BASE, ROW_BYTES, LAST, DIM, WIDTH)                                             \
  }
#endif

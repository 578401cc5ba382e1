#pragma aule inline
// Rows on their way into the kernels for matrix units.
//
// Tiles: TILE rows each of a first operand (head size D: K, or Q in dK/dV) and a second one (DV: V, or dO), loaded into
// registers by fetch_*, written to shared memory by put_*, so that loads fly while a tile is worked on.
// Stationary operands: FETCH_ROWS, then ROWS_TO_FRAGMENTS through the subgroup's patch. Results: STORE_ROWS.
#ifndef AULE_ATTENTION_MATRIX_TILES_GLSL
#define AULE_ATTENTION_MATRIX_TILES_GLSL

const int LOADS_A = (TILE * CHUNKS + LOCAL - 1) / LOCAL, LOADS_B = (TILE * CHUNKS_V + LOCAL - 1) / LOCAL;
const bool WHOLE_A = TILE * CHUNKS % LOCAL == 0, WHOLE_B = TILE * CHUNKS_V % LOCAL == 0;
const int TILE_A = TILE * PITCH;               // where the second operand starts
const int STAGE_SIZE = TILE_A + TILE * PITCH_V;
const int TILES_SIZE = STAGES * STAGE_SIZE, PATCHES_SIZE = WARPS * PATCH_SIZE;
shared uvec4 tiles[TILES_SIZE > PATCHES_SIZE ? TILES_SIZE : PATCHES_SIZE];
// Whole multiples of 16 bytes, all of them: matrix accesses to what follows must be aligned to that, and a driver lays
// out one float of an array that is never used (suspected where gradients of the tier of unknown layout were wrong on
// an H200).
shared T strips[HAND_OVER ? 8 : WARPS * 2 * STRIP];  // two of each subgroup
#ifdef GIFTS
// What subgroups that share rows tell each other: elements of accumulators in the order of their lanes.
shared uvec4 gifts[SPLIT == 1 ? 1 : GIFTS];
#endif
#define GIVEN_BITS(j) floatBitsToUint(vec4(given[4 * (j)], given[4 * (j) + 1], given[4 * (j) + 2], given[4 * (j) + 3]))
// FIRST of part 0, else SECOND. By bits: a conditional becomes a branch in one vendor's compiler, and accumulators
// whose elements meet one go to memory.
#define BY_PART(FIRST, SECOND)                                                                                         \
  uintBitsToFloat((floatBitsToUint(FIRST) & uint(part - 1)) | (floatBitsToUint(SECOND) & ~uint(part - 1)))

uint strip_at(int which) { return uint((int(gl_SubgroupID) * 2 + which) * STRIP); }
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
uvec4 strip_chunk(int which, int row, int column) {
  const uint at = strip_at(which) + uint(row * STRIP_PITCH + column);
  return uvec4(pack_pair(strips[at], strips[at + 1]), pack_pair(strips[at + 2], strips[at + 3]),
               pack_pair(strips[at + 4], strips[at + 5]), pack_pair(strips[at + 6], strips[at + 7]));
}
// Element e of the accumulator-shaped A operand M; when all are put, TAKE_A makes it whole. WHICH: 0 or 1, its strip.
#define PUT_A(M, WHICH, e, x)                                                                                          \
  {                                                                                                                    \
    if (HAND_OVER) M[NIBBLE(ELEM_OF_A, e)] = T(x);                                                                     \
    else strips[strip_at(WHICH) + uint((lane_row() + NIBBLE(ELEM_ROWS, e)) * STRIP_PITCH + lane_col() + \
        NIBBLE(ELEM_COLS, e))] = T(x); \
  }
#define TAKE_A(M, WHICH)                                                                                               \
  if (!HAND_OVER) {                                                                                                    \
    WAIT_FOR_SUBGROUP                                                                                                  \
    coopMatLoad(M, strips, strip_at(WHICH), uint(STRIP_PITCH), ROW_MAJOR);                                             \
    WAIT_FOR_SUBGROUP                                                                                                  \
  }

uvec4 next_a[LOADS_A], next_b[LOADS_B];
uint64_t a_base, b_base;
int tile_last;  // the last row that exists

// Where load i of a tile starts, in bytes from the head: 32 bits, and sums of constants where steps allow. A clamp per
// row and steps that are no constants cost 5 % of causal D 64 on an H200.
#define TILE_OFFSET(tile, i, STEP, COUNT)                                                                              \
  (uint(tile) * uint(TILE * STEP) +                                                                                    \
   (STEP == COUNT * 16 ? gl_LocalInvocationIndex * 16u + uint((i) * LOCAL * 16)                                        \
    : LOCAL % COUNT == 0                                                                                               \
        ? gl_LocalInvocationIndex / COUNT * uint(STEP) + gl_LocalInvocationIndex % COUNT * 16u + \
            uint((i) * (LOCAL / COUNT) * STEP) \
        : (gl_LocalInvocationIndex + (i) * LOCAL) / COUNT * uint(STEP) + \
            (gl_LocalInvocationIndex + (i) * LOCAL) % COUNT * 16u))
// A page's start and the row within it.
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
    if (WHOLE_A || e < TILE * CHUNKS) {
      if (WHOLE && ALIGNED && !PADDED) next_a[i] = ChunkRef(a_base + uint64_t(TILE_OFFSET(tile, i, A_STEP, CHUNKS))).v;
      else {
        const int row = min(tile * TILE + e / CHUNKS, tile_last);
        next_a[i] = load_chunk(PAGE_BASE(a_base, p.key_stride[0], row), PAGE_ROW(row) * uint(A_STEP), e % CHUNKS * 8,
            p.head_dim);
      }
    }
  }
}
void fetch_b(int tile) {
  [[unroll]] for (int i = 0; i < LOADS_B; ++i) {
    const int e = int(gl_LocalInvocationIndex) + i * LOCAL;
    if (WHOLE_B || e < TILE * CHUNKS_V) {
      if (WHOLE && ALIGNED && !PADDED) next_b[i] = ChunkRef(b_base +
          uint64_t(TILE_OFFSET(tile, i, B_STEP, CHUNKS_V))).v;
      else {
        const int row = min(tile * TILE + e / CHUNKS_V, tile_last);
        next_b[i] = load_chunk(PAGE_BASE(b_base, p.value_stride[0], row), PAGE_ROW(row) * uint(B_STEP),
            e % CHUNKS_V * 8, p.v_dim);
      }
    }
  }
}
void put_a(int stage) {
  [[unroll]] for (int i = 0; i < LOADS_A; ++i) {
    const int e = int(gl_LocalInvocationIndex) + i * LOCAL;
    if (WHOLE_A || e < TILE * CHUNKS) tiles[stage * STAGE_SIZE + e / CHUNKS * PITCH + e % CHUNKS] = next_a[i];
  }
}
void put_b(int stage) {
  [[unroll]] for (int i = 0; i < LOADS_B; ++i) {
    const int e = int(gl_LocalInvocationIndex) + i * LOCAL;
    if (WHOLE_B || e < TILE * CHUNKS_V) tiles[stage * STAGE_SIZE + TILE_A + e / CHUNKS_V * PITCH_V + e % CHUNKS_V] =
        next_b[i];
  }
}

// Rows pass a patch in pieces of PATCH_COLS columns, the last of which may be narrower. In a piece, load i of a lane is
// chunk lane() + i * SUBGROUP of 16 bytes, row after row: whole rows at a time, so that an access touches few lines of
// memory.
#define PIECES(WIDTH) (((WIDTH) + PATCH_COLS - 1) / PATCH_COLS)
#define PIECE_CHUNKS(WIDTH, d) (((WIDTH) - (d) < PATCH_COLS ? (WIDTH) - (d) : PATCH_COLS) / 8)
// uvec4 CHUNK[] := this subgroup's ROWS * MAT_M rows from row0 on, of WIDTH columns padded from DIM, rows clamped to
// LAST.
#define FETCH_ROWS(CHUNK, BASE, STEP_BYTES, LAST, DIM, WIDTH)                                                          \
  uvec4 CHUNK[ROWS * PIECES(WIDTH) * PATCH_LOADS];                                                                     \
  [[unroll]] for (int r = 0; r < ROWS; ++r)                                                                            \
    [[unroll]] for (int d = 0; d < (WIDTH); d += PATCH_COLS)                                                           \
      [[unroll]] for (int i = 0; i < PATCH_LOADS; ++i) {                                                               \
        const int n = PIECE_CHUNKS(WIDTH, d), e = lane() + i * SUBGROUP;                                               \
        if (i * SUBGROUP < MAT_M * n)                                                                                  \
          CHUNK[(r * PIECES(WIDTH) + d / PATCH_COLS) * PATCH_LOADS + i] =                                              \
              load_chunk(BASE, uint(min(row0 + r * MAT_M + e / n, LAST)) * STEP_BYTES, d + e % n * 8, DIM);            \
      }
// MatA FRAGMENT[ROWS * (WIDTH / MAT_N)] := CHUNK. The patches overlap the tiles: a barrier() must follow.
#define ROWS_TO_FRAGMENTS(FRAGMENT, CHUNK, WIDTH)                                                                      \
  [[unroll]] for (int r = 0; r < ROWS; ++r)                                                                            \
    [[unroll]] for (int d = 0; d < (WIDTH); d += PATCH_COLS) {                                                         \
      [[unroll]] for (int i = 0; i < PATCH_LOADS; ++i) {                                                               \
        const int n = PIECE_CHUNKS(WIDTH, d), e = lane() + i * SUBGROUP;                                               \
        if (e < MAT_M * n)                                                                                             \
          tiles[corner + e / n * PATCH_PITCH + e % n] = CHUNK[(r * PIECES(WIDTH) + d / PATCH_COLS) * PATCH_LOADS + i]; \
      }                                                                                                                \
      WAIT_FOR_SUBGROUP                                                                                                \
      [[unroll]] for (int i = 0; i < PATCH_COLS / MAT_N; ++i)                                                          \
        if (d + i * MAT_N < (WIDTH))                                                                                   \
          coopMatLoad(FRAGMENT[r * ((WIDTH) / MAT_N) + d / MAT_N + i], tiles, uint(corner + i * MAT_N / 8), \
              uint(PATCH_PITCH), ROW_MAJOR); \
      WAIT_FOR_SUBGROUP                                                                                                \
    }
// The same fragments straight from memory (DIRECT): no registers on the way, which is what matters beside accumulators.
#define LOAD_FRAGMENTS(FRAGMENT, BASE, STRIDE, WIDTH)                                                                  \
  [[unroll]] for (int r = 0; r < ROWS; ++r)                                                                            \
    [[unroll]] for (int d = 0; d < (WIDTH); d += MAT_N)                                                                \
      coopMatLoad(FRAGMENT[r * ((WIDTH) / MAT_N) + d / MAT_N],                                                         \
                  ElemsRef(BASE + uint64_t(uint(row0 + r * MAT_M) * ((STRIDE) * 2u) + uint(d * 2))).v, 0u, STRIDE, \
                      ROW_MAJOR);
// The compiler must not know that addresses of the last rows are those of the first ones: it would hold them in
// registers through the loop between, which has none to spare.
#define OPAQUE_ZERO int(p.groups >> 31)
// Rows of the accumulators ACCS times FACTOR(r, e), rounded, through the patch: 16 bytes per lane. Matrix stores of
// 16-bit results to global memory are eight 2-byte stores per lane on one vendor's compiler.
#define STORE_ROWS_HANDED(ACCS, FACTOR, BASE, STEP_BYTES, LAST, DIM, WIDTH)                                            \
  {                                                                                                                    \
  const int later_corner = corner + OPAQUE_ZERO, later = lane() + OPAQUE_ZERO;                                         \
  [[unroll]] for (int r = 0; r < ROWS; ++r)                                                                            \
    [[unroll]] for (int d = 0; d < (WIDTH); d += PATCH_COLS) {                                                         \
      [[unroll]] for (int i = 0; i < PATCH_COLS / MAT_N; ++i)                                                          \
        if (d + i * MAT_N < (WIDTH)) {                                                                                 \
          MatA result;                                                                                                 \
          [[unroll]] for (int e = 0; e < ELEMS; ++e)                                                                   \
            result[NIBBLE(ELEM_OF_A, e)] = nearest(ACCS[r * ((WIDTH) / MAT_N) + d / MAT_N + i][e] * FACTOR(r, e));     \
          coopMatStore(result, tiles, uint(later_corner + i * MAT_N / 8), uint(PATCH_PITCH), ROW_MAJOR);               \
        }                                                                                                              \
      WAIT_FOR_SUBGROUP                                                                                                \
      [[unroll]] for (int i = 0; i < PATCH_LOADS; ++i) {                                                               \
        const int n = PIECE_CHUNKS(WIDTH, d), e = later + i * SUBGROUP, row = row0 + r * MAT_M + e / n;                \
        if (e < MAT_M * n && row <= (LAST))                                                                            \
          store_chunk(BASE, uint(row) * STEP_BYTES, d + e % n * 8, DIM, \
              tiles[later_corner + e / n * PATCH_PITCH + e % n]); \
      }                                                                                                                \
      WAIT_FOR_SUBGROUP                                                                                                \
    }                                                                                                                  \
  }
// The same by way of the strips, 16 columns at a time.
#define STORE_ROWS_STRIPS(ACCS, FACTOR, BASE, STEP_BYTES, LAST, DIM, WIDTH)                                            \
  [[unroll]] for (int r = 0; r < ROWS; ++r)                                                                            \
    [[unroll]] for (int c = 0; c < (WIDTH) / 16; ++c) {                                                                \
      [[unroll]] for (int i = 0; i < 16 / MAT_N; ++i)                                                                  \
        [[unroll]] for (int e = 0; e < ELEMS; ++e)                                                                     \
          strips[strip_at(0) + uint((lane_row() + NIBBLE(ELEM_ROWS, e)) * STRIP_PITCH + i * MAT_N + lane_col() + \
              NIBBLE(ELEM_COLS, e))] = \
              nearest(ACCS[r * ((WIDTH) / MAT_N) + c * (16 / MAT_N) + i][e] * FACTOR(r, e)); \
      WAIT_FOR_SUBGROUP                                                                                                \
      [[unroll]] for (int i = 0; i < STRIP_LOADS; ++i) {                                                               \
        const int e = lane() + i * SUBGROUP, row = row0 + r * MAT_M + e / 2;                                           \
        if (row <= (LAST) && (STRIP_WHOLE || e < MAT_M * 2))                                                           \
          store_chunk(BASE, uint(row) * STEP_BYTES, c * 16 + e % 2 * 8, DIM, strip_chunk(0, e / 2, e % 2 * 8));        \
      }                                                                                                                \
      WAIT_FOR_SUBGROUP                                                                                                \
    }
// Float32 accumulators whose elements nobody knows, by way of 16 columns of floats SCRATCH from ORIGIN on, PITCH apart.
#define STORE_ROWS_OF_FLOATS(SCRATCH, ORIGIN, PITCH, ACCS, FACTOR, BASE, STEP_BYTES, LAST, DIM, WIDTH)                 \
  [[unroll]] for (int r = 0; r < ROWS; ++r)                                                                            \
    [[unroll]] for (int c = 0; c < (WIDTH) / 16; ++c) {                                                                \
      [[unroll]] for (int i = 0; i < 16 / MAT_N; ++i)                                                                  \
        coopMatStore(ACCS[r * ((WIDTH) / MAT_N) + c * (16 / MAT_N) + i], SCRATCH, (ORIGIN) + uint(i * MAT_N), \
            uint(PITCH), ROW_MAJOR); \
      WAIT_FOR_SUBGROUP                                                                                                \
      [[unroll]] for (int i = 0; i < STRIP_LOADS; ++i) {                                                               \
        const int e = lane() + i * SUBGROUP, row = row0 + r * MAT_M + e / 2;                                           \
        if (row <= (LAST) && (STRIP_WHOLE || e < MAT_M * 2)) {                                                         \
          const uint at = (ORIGIN) + uint(e / 2 * (PITCH) + e % 2 * 8);                                                \
          uvec4 chunk;                                                                                                 \
          [[unroll]] for (int j = 0; j < 4; ++j)                                                                       \
            chunk[j] = pack_pair(nearest(SCRATCH[at + 2 * j] * (FACTOR)), nearest(SCRATCH[at + 2 * j + 1] * (FACTOR)));\
          store_chunk(BASE, uint(row) * STEP_BYTES, c * 16 + e % 2 * 8, DIM, chunk);                                   \
        }                                                                                                              \
      }                                                                                                                \
      WAIT_FOR_SUBGROUP                                                                                                \
    }
#define STORE_ROWS(ACCS, FACTOR, BASE, STEP_BYTES, LAST, DIM, WIDTH)                                                   \
  if (HAND_OVER) {                                                                                                     \
    STORE_ROWS_HANDED(ACCS, FACTOR, BASE, STEP_BYTES, LAST, DIM, WIDTH)                                                \
  } else {                                                                                                             \
    STORE_ROWS_STRIPS(ACCS, FACTOR, BASE, STEP_BYTES, LAST, DIM, WIDTH)                                                \
  }
#endif

// For every device: tiles in shared memory, register blocks, no subgroup operation and no matrix unit.
//
// 128 invocations as 16 (y) x 8 (x) work on BM = 16 * R rows against tiles of 32 others:
//   scores  S[BM][32]: invocation (y, x) holds rows y*R + {0..R-1}, columns x*4 + {0..3}; D passes in chunks of 32
//   result  [BM][COLUMNS]: rows y*R + {0..R-1}, columns x + 8*j; the second operand passes in chunks of 32 columns
// A workgroup makes at most COLUMNS columns of the result; larger heads are split over workgroups, which repeat the scores
// (accumulators stay in registers). Shared rows are 33 long, so that neither reading order meets bank conflicts.
// 23.7 KiB of shared memory at R = 4.
#ifndef AULE_ATTENTION_TILES_GLSL
#define AULE_ATTENTION_TILES_GLSL
#include "attention/attention.glsl"

layout(constant_id = 5) const int COLUMNS = 64;  // of the result of one workgroup, a multiple of 32
layout(constant_id = 6) const int SPLITS = 1;    // workgroups per block of rows
layout(constant_id = 7) const int R = 4;
layout(constant_id = 8) const int PAIR = 0;  // unused by this family

const int BM = 16 * R;
const int BN = 32;
const int PITCH = 33;
const int PER_LANE = COLUMNS / 8;

shared float tile_a[BM * PITCH];
shared float tile_b[BN * PITCH];
shared float tile_s[BM * PITCH];
shared float partial[BM * 8];

// Arrays sized by constants pass through functions only inside structs.
struct ScoreTile { float v[R * 4]; };
struct ResultTile { float v[R * PER_LANE]; };
struct RowFactor { float v[R]; };

int ty() { return int(gl_LocalInvocationID.x) / 8; }
int tx() { return int(gl_LocalInvocationID.x) % 8; }

// tile_a[r][d] = rows first + r, elements d0 + d; zero outside.
void stage_a(uint64_t base, int64_t step, int first, int row_end, int d0, int d_end) {
  [[dont_unroll]] for (int i = int(gl_LocalInvocationID.x); i < BM * 32; i += LOCAL) {
    int r = i / 32, d = i % 32;
    bool inside = first + r < row_end && d0 + d < d_end;
    float x = 0.0;
    if (inside) x = load_float(base, uint64_t(int64_t(first + r) * step + int64_t(d0 + d)), DT);
    tile_a[r * PITCH + d] = x;
  }
}
int64_t page_stride;  // of the operand that stage_b takes, when PAGED
void stage_b(uint64_t base, int64_t step, int first, int row_end, int d0, int d_end) {
  [[dont_unroll]] for (int i = int(gl_LocalInvocationID.x); i < BN * 32; i += LOCAL) {
    int r = i / 32, d = i % 32;
    bool inside = first + r < row_end && d0 + d < d_end;
    float x = 0.0;
    if (inside) {
      int64_t row = int64_t(first + r) * step;
      if (PAGED) row = int64_t(page_of(first + r)) * page_stride + int64_t((first + r) % PAGE) * step;
      x = load_float(base, uint64_t(row + int64_t(d0 + d)), DT);
    }
    tile_b[r * PITCH + d] = x;
  }
}

// acc[i][j] = sum_d a[first_a + y*R + i][d] * b[first_b + x*4 + j][d] over the whole head size.
void scores(out ScoreTile acc, uint64_t a, int64_t a_step, int first_a, int a_end, uint64_t b, int64_t b_step,
            int first_b, int b_end, int dim) {
  [[unroll]] for (int i = 0; i < R * 4; ++i) acc.v[i] = 0.0;
  [[dont_unroll]] for (int c = 0; c < dim; c += 32) {
    barrier();  // both tiles have been read
    stage_a(a, a_step, first_a, a_end, c, dim);
    stage_b(b, b_step, first_b, b_end, c, dim);
    barrier();  // both tiles are written
    [[dont_unroll]] for (int d = 0; d < 32; ++d) {
      float y[R], x[4];
      [[unroll]] for (int i = 0; i < R; ++i) y[i] = tile_a[(ty() * R + i) * PITCH + d];
      [[unroll]] for (int j = 0; j < 4; ++j) x[j] = tile_b[(tx() * 4 + j) * PITCH + d];
      [[unroll]] for (int i = 0; i < R; ++i)
        [[unroll]] for (int j = 0; j < 4; ++j) acc.v[i * 4 + j] += y[i] * x[j];
    }
  }
}

// acc[i][..] += sum_n s[y*R + i][n] * b[first + n][column..]; writes `s` to tile_s first.
void accumulate(inout ResultTile acc, ScoreTile s, uint64_t b, int64_t b_step, int first, int b_end, int column,
                int dim) {
  barrier();  // tile_s has been read
  [[unroll]] for (int i = 0; i < R; ++i)
    [[unroll]] for (int j = 0; j < 4; ++j) tile_s[(ty() * R + i) * PITCH + tx() * 4 + j] = s.v[i * 4 + j];
  [[unroll]] for (int c = 0; c < COLUMNS; c += 32) {
    barrier();  // tile_b has been read
    stage_b(b, b_step, first, b_end, column + c, dim);
    barrier();  // tile_b, and at first tile_s, are written
    [[dont_unroll]] for (int n = 0; n < BN; ++n) {
      float y[R], x[4];
      [[unroll]] for (int i = 0; i < R; ++i) y[i] = tile_s[(ty() * R + i) * PITCH + n];
      [[unroll]] for (int j = 0; j < 4; ++j) x[j] = tile_b[n * PITCH + tx() + 8 * j];
      [[unroll]] for (int i = 0; i < R; ++i)
        [[unroll]] for (int j = 0; j < 4; ++j) acc.v[i * PER_LANE + c / 8 + j] += y[i] * x[j];
    }
  }
}

void store_result(ResultTile acc, uint64_t base, int64_t step, int first, int row_end, int column, int dim,
                  RowFactor factor) {
  [[unroll]] for (int i = 0; i < R; ++i) {
    int row = first + ty() * R + i;
    [[unroll]] for (int j = 0; j < PER_LANE; ++j) {
      int d = column + tx() + 8 * j;
      if (row < row_end && d < dim) store_float(base, uint64_t(int64_t(row) * step + int64_t(d)), DT, acc.v[i * PER_LANE + j] * factor.v[i]);
    }
  }
}

#endif

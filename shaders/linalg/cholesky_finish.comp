// The last step of a factorization by panels, float32: the diagonal blocks of cholesky_panel.comp, [batches, panels,
// SIDE, SIDE] by columns, come to where they belong in a [n, n], and everything above the diagonal becomes zero. A
// workgroup has a block of SIDE x SIDE, on the diagonal or above. Panels past the column of `info` have no block.
layout(constant_id = 0) const int SIDE = 128;
layout(local_size_x = 256) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"

struct Params {
  uint64_t a, info, diagonals;
  int64_t batch_stride, row, col;
  uint n, batches;
};
#include "common/params.glsl"

void main() {
  const uint panels = (p.n + SIDE - 1) / SIDE, blocks = panels * panels, batch = linear_group() / blocks;
  const uint above = linear_group() % blocks / panels, right = linear_group() % panels;
  if (batch >= p.batches || above > right) return;
  const uint failed = uint(I32Ref(p.info + batch * 4).v);
  const bool has_block = failed == 0 || failed > above * SIDE;
  const uint64_t a = p.a + uint64_t(int64_t(batch) * p.batch_stride * 4);
  const uint64_t diagonal = p.diagonals + uint64_t(batch * panels + above) * (SIDE * SIDE * 4);
  for (uint e = gl_LocalInvocationID.x; e < SIDE * SIDE; e += 256) {
    const uint i = p.row <= p.col ? e % SIDE : e / SIDE, j = p.row <= p.col ? e / SIDE : e % SIDE;
    const uint row = above * SIDE + i, col = right * SIDE + j;
    if (row >= p.n || col >= p.n) continue;
    if (col <= row && !has_block) continue;
    const float value = col <= row ? F32Ref(diagonal + (j * SIDE + i) * 4).v : 0.0;
    F32Ref(a + uint64_t((int64_t(row) * p.row + int64_t(col) * p.col) * 4)).v = value;
  }
}

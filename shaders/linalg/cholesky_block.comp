#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
// The lower triangle of a = L L^H, in place of a's; the other triangle and imaginary parts of the diagonal are not
// read. A workgroup has one matrix of the batch in shared memory, an invocation the rows lane, lane + LOCAL, ...
// `info` gets first + j + 1 where pivot j is not positive. Then, and where it is not 0 already, nothing more is done.
layout(constant_id = 0) const int ELEMENTS = 1024;  // n n at least
layout(constant_id = 1) const int SIDE = 32;        // n at least
layout(constant_id = 2) const int LOCAL = 32;
layout(local_size_x_id = 2) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "linalg/number.glsl"

struct Params {
  uint64_t a, info;
  int64_t batch_stride, row, col;
  uint n, batches, first;
};
#include "common/params.glsl"

shared C matrix[ELEMENTS];  // by columns
shared C column[SIDE];
shared R pivot;

uint lane;

void move_matrix(uint batch, bool stores) {
  const bool along_rows = abs(p.row) <= abs(p.col);
  for (uint e = lane; e < p.n * p.n; e += LOCAL) {
    const uint i = along_rows ? e % p.n : e / p.n, j = along_rows ? e / p.n : e % p.n;
    const int64_t at = int64_t(batch) * p.batch_stride + int64_t(i) * p.row + int64_t(j) * p.col;
    if (j > i) continue;
    if (stores) store_number(p.a, at, matrix[j * p.n + i]);
    else matrix[j * p.n + i] = load_number(p.a, at);
  }
}

// Returns the number of columns with a positive pivot.
uint factorize() {
  for (uint j = 0; j < p.n; ++j) {
    if (lane == j % LOCAL) pivot = real_part(matrix[j * p.n + j]);
    barrier();  // the pivot is written, the last column read
    if (!(pivot > R(0))) return j;
    const R root = sqrt(pivot);
    for (uint i = j + (lane + LOCAL - j % LOCAL) % LOCAL; i < p.n; i += LOCAL) {
      const C value = i == j ? from_real(root) : matrix[j * p.n + i] / root;
      matrix[j * p.n + i] = value;
      column[i] = value;
    }
    barrier();  // the column is written, the pivot read
    for (uint i = j + 1 + (lane + LOCAL - (j + 1) % LOCAL) % LOCAL; i < p.n; i += LOCAL) {
      const C own = column[i];
      for (uint k = j + 1; k <= i; ++k) matrix[k * p.n + i] -= mul(own, conjugate(column[k]));
    }
  }
  return p.n;
}

void main() {
  lane = gl_LocalInvocationID.x;
  const uint batch = min(linear_group(), p.batches - 1);
  const bool works = linear_group() < p.batches && I32Ref(p.info + batch * 4).v == 0;  // of a workgroup alike
  if (works) move_matrix(batch, false);
  barrier();  // the matrix is written, and info read
  if (works) {
    const uint done = factorize();
    if (lane == 0 && done < p.n) I32Ref(p.info + batch * 4).v = int(p.first + done + 1);
    barrier();  // the matrix is written
    move_matrix(batch, true);
  }
}

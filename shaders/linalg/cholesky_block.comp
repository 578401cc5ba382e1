#pragma aule axis C float double vec2 dvec2
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
// The lower triangle of a = L L^H, in place of a's; the other triangle and imaginary parts of the diagonal are not
// read. A workgroup has one matrix of the batch in shared memory; its invocations are a grid over what is updated.
// `info` gets first + j + 1 where pivot j is not positive. Then, and where it is not 0 already, nothing more is done.
layout(constant_id = 0) const int ELEMENTS = 1024;  // n n at least
layout(constant_id = 1) const int SIDE = 32;        // n at least
layout(constant_id = 2) const int LOCAL = 32;
layout(local_size_x_id = 2) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "linalg/number.glsl"
#include "linalg/staging.glsl"

struct Params {
  uint64_t a, info;
  int64_t batch_stride, row, col;
  uint n, batches, first;
};
#include "common/params.glsl"

shared C matrix[ELEMENTS];  // by columns
shared C column[SIDE];

const uint ACROSS = LOCAL < 16 ? LOCAL : 16, DOWN = LOCAL / ACROSS;
uint lane;

uvec2 place_of(uint e) { return staged_place(e, p.n, p.n, p.row, p.col); }
int64_t address_of(uint batch, uvec2 at) {
  return int64_t(batch) * p.batch_stride + int64_t(at.x) * p.row + int64_t(at.y) * p.col;
}
void keep(uvec2 at, C value) { matrix[at.y * p.n + at.x] = value; }

void load_matrix(uint batch) {  // the other triangle is anything
  STAGE(p.n * p.n, load_number(p.a, address_of(batch, place_of(e))), keep(place_of(e), loaded))
}
void store_matrix(uint batch) {
  for (uint e = lane; e < p.n * p.n; e += LOCAL) {
    const uvec2 at = place_of(e);
    if (at.y <= at.x) store_number(p.a, address_of(batch, at), matrix[at.y * p.n + at.x]);
  }
}

// Returns the number of columns with a positive pivot.
uint factorize() {
  for (uint j = 0; j < p.n; ++j) {
    const R pivot = real_part(matrix[j * p.n + j]);
    if (!(pivot > R(0))) return j;
    const R root = sqrt(pivot);
    for (uint i = j + 1 + lane; i < p.n; i += LOCAL) {
      const C value = matrix[j * p.n + i] / root;
      matrix[j * p.n + i] = value;
      column[i] = value;
    }
    barrier();  // the column is written, the pivot read
    if (lane == 0) matrix[j * p.n + j] = from_real(root);
    for (uint k = j + 1 + lane / ACROSS; k < p.n; k += DOWN) {
      const C other = conjugate(column[k]);
      for (uint i = k + lane % ACROSS; i < p.n; i += ACROSS) matrix[k * p.n + i] -= mul(column[i], other);
    }
    barrier();  // the others are updated, the column read
  }
  return p.n;
}

void main() {
  lane = gl_LocalInvocationID.x;
  const uint batch = min(linear_group(), p.batches - 1);
  const bool works = linear_group() < p.batches && I32Ref(p.info + batch * 4).v == 0;  // of a workgroup alike
  if (works) load_matrix(batch);
  barrier();  // the matrix is written, and info read
  if (works) {
    const uint done = factorize();
    if (lane == 0 && done < p.n) I32Ref(p.info + batch * 4).v = int(p.first + done + 1);
    barrier();  // the matrix is written
    store_matrix(batch);
  }
}

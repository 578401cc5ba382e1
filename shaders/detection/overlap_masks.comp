#pragma aule axis C float double
#pragma aule feature float64 if C=double
// masks[i - first_row, w] has bit b set if j = 32 w + b > i and IoU(boxes[i], boxes[j]) > threshold, where boxes[n, 4]
// are corners (x1, y1, x2, y2) in falling order of their scores and IoU is the area of the intersection over that of
// the union. One invocation per row and word of 32 boxes, along the words. Words before a row's own are not written.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"
layout(constant_id = 0) const int DTYPE = 0;
struct Params {
  uint64_t boxes, masks;
  uint64_t invocations;
  uint64_t threshold;  // bits of the arithmetic type
  uint n, words, first_row;
};
#include "common/params.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer WordRef { uint v; };

struct Box {
  REAL x1, y1, x2, y2, area;
};

Box box_of(uint i) {
  const uint64_t at = uint64_t(i) * 4;
  Box b;
  b.x1 = LOAD(p.boxes, at, DTYPE);
  b.y1 = LOAD(p.boxes, at + 1, DTYPE);
  b.x2 = LOAD(p.boxes, at + 2, DTYPE);
  b.y2 = LOAD(p.boxes, at + 3, DTYPE);
  precise const REAL area = (b.x2 - b.x1) * (b.y2 - b.y1);
  b.area = area;
  return b;
}

void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.invocations) return;
  const uint64_t row = id / uint64_t(p.words);
  const uint word = uint(id - row * uint64_t(p.words)), i = p.first_row + uint(row);
  if (word < i / 32u) return;
  const REAL threshold = REAL_OF_BITS(p.threshold);
  const Box a = box_of(i);
  uint bits = 0u;
  for (uint b = 0u; b < 32u; ++b) {
    const uint j = word * 32u + b;
    const Box c = box_of(min(j, p.n - 1u));
    const REAL width = max(REAL(0), min(a.x2, c.x2) - max(a.x1, c.x1));
    const REAL height = max(REAL(0), min(a.y2, c.y2) - max(a.y1, c.y1));
    precise const REAL both = width * height, one = a.area + c.area - both;
    // A union of 0 divides nothing: two boxes without area do not overlap.
    if (j > i && j < p.n && one > REAL(0) && both / one > threshold) bits |= 1u << b;
  }
  WordRef(p.masks + id * 4).v = bits;
}

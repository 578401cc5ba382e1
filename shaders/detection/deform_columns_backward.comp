#pragma aule axis C float double
#pragma aule axis ADD cas native
#pragma aule feature float64 if C=double
#pragma aule feature float32_atomic_add if ADD=native
#pragma aule skip C=double ADD=native
// From the gradient of deform_columns.comp's result:
//   grad_in[n, c, cell] += weight(n, tap, o, cell) * mask * grad_columns[n, (c, tap), o]
//   grad_offset[n, tap, o] = sum over c of slope * mask * grad_columns, grad_mask = sum over c of sample * grad_columns
// One invocation per (n, group, tap, o), over the channels of the group; grad_in by atomics, in float32. ORDERED: one
// invocation per plane of grad_in, over `first` to `last` of (tap, o), for grad_in alone: deterministic, and float64's.
#ifdef ADD_native
#extension GL_EXT_shader_atomic_float : require
#endif
#include "common/dtype.glsl"
#include "common/atomic_float.glsl"
layout(local_size_x = 64) in;
#include "common/indexing.glsl"
#include "common/real.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool MASKED = false;
layout(constant_id = 2) const bool WANTS_INPUT = false;
layout(constant_id = 3) const bool WANTS_OFFSET = false;  // and the mask's, where there is one
layout(constant_id = 4) const bool ORDERED = false;
struct Params {
  uint64_t in_, offset, mask, grad_columns, grad_in, grad_offset, grad_mask;
  uint64_t n;  // invocations
  int size[2], out_size[2], kernel[2], stride[2], pad[2], dilation[2];  // y, x
  uint channels, offset_groups, first, last;
};
#include "common/params.glsl"
#include "common/scattered_sum.glsl"
#include "detection/deform.glsl"

uint area_of() { return uint(p.out_size[0] * p.out_size[1]); }
uint taps_of() { return uint(p.kernel[0] * p.kernel[1]); }

// The gradient of one column's element, to the corners that it has read; plane: of the input.
REAL gradient_at(uint64_t plane, uint tap, uint o) {
  return LOAD(p.grad_columns, (plane * uint64_t(taps_of()) + uint64_t(tap)) * uint64_t(area_of()) + uint64_t(o), DTYPE);
}

void add_to_corners(Corners c, uint64_t plane, REAL g) {
  const uint64_t to = plane * uint64_t(p.size[0]) * uint64_t(p.size[1]);
  for (int corner = 0; corner < 4; ++corner)
    if (c.index[corner] >= 0) add_to(to + uint64_t(c.index[corner]), c.weight[corner] * g);
}

void plane_in_order(uint64_t plane) {
  const uint image = uint(plane / uint64_t(p.channels)), channel = uint(plane - uint64_t(image) * uint64_t(p.channels));
  const uint group = channel / (p.channels / p.offset_groups);
  for (uint i = p.first; i < p.last; ++i) {
    const uint tap = i / area_of(), o = i - tap * area_of();
    const Tap t = tap_of(image, group, tap, o);
    add_to_corners(corners_of(t.y, t.x, p.size[0], p.size[1]), plane, t.mask * gradient_at(plane, tap, o));
  }
}

void main() {
  const uint64_t id = linear_invocation();
  if (id >= p.n) return;
  if (ORDERED) {
    plane_in_order(id);
    return;
  }
  const uint64_t row = id / uint64_t(area_of()), set = row / uint64_t(taps_of());
  const uint o = uint(id - row * uint64_t(area_of())), tap = uint(row - set * uint64_t(taps_of()));
  const uint image = uint(set / uint64_t(p.offset_groups));
  const uint group = uint(set - uint64_t(image) * uint64_t(p.offset_groups));
  const Tap t = tap_of(image, group, tap, o);
  const Corners c = corners_of(t.y, t.x, p.size[0], p.size[1]);
  const uint each = p.channels / p.offset_groups;
  REAL by_y = REAL(0), by_x = REAL(0), by_mask = REAL(0);
  for (uint k = 0u; k < each; ++k) {
    const uint64_t plane = uint64_t(image) * uint64_t(p.channels) + uint64_t(group * each + k);
    const REAL g = gradient_at(plane, tap, o);
    if (WANTS_INPUT) add_to_corners(c, plane, t.mask * g);
    if (WANTS_OFFSET)
      for (int corner = 0; corner < 4; ++corner) {
        const uint64_t i = plane * uint64_t(p.size[0]) * uint64_t(p.size[1]) + uint64_t(max(c.index[corner], 0));
        const REAL v = LOAD(p.in_, i, DTYPE), seen = c.index[corner] >= 0 ? v * g : REAL(0);
        by_y += c.by_y[corner] * seen;
        by_x += c.by_x[corner] * seen;
        by_mask += c.weight[corner] * seen;
      }
  }
  if (!WANTS_OFFSET) return;
  const uint64_t offset = row * 2 * uint64_t(area_of()) + uint64_t(o);
  STORE(p.grad_offset, offset, DTYPE, t.mask * by_y);
  STORE(p.grad_offset, offset + uint64_t(area_of()), DTYPE, t.mask * by_x);
  if (MASKED) STORE(p.grad_mask, t.at, DTYPE, by_mask);
}

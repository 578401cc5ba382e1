#pragma aule axis DIRECTION forward backward
#pragma aule axis C float double
#pragma aule skip DIRECTION=forward C=double
#pragma aule feature float64 if C=double
// Reflection and replication padding over up to three axes (1-D and 2-D have 1 in front); pads may be negative (crop).
//   forward:  out[n, o] = in[n, map(o - pad)] with map(i) = reflected at, or clamped to, the edges
//   backward: grad_in[n, i] = sum of grad_out[n, o] over the outputs that map to i: gathered, so no atomics
// Layout: planes of contiguous D x H x W.
#include "common/dtype.glsl"
#include "common/real.glsl"
layout(local_size_x = 64) in;
#include "common/indexing.glsl"
layout(constant_id = 0) const int DTYPE = 0;  // forward: a RAW code (bits move); backward: the dtype
layout(constant_id = 1) const bool REFLECT = true;
struct Params {
  uint64_t in_, out_;  // backward: in_ = grad_out, out_ = grad_in
  uint64_t n;
  int in_size[3], out_size[3], pad[3];  // pad: before the first element
};
#include "common/params.glsl"

int map(int d, int o) {
  int i = o - p.pad[d], last = p.in_size[d] - 1;
  if (!REFLECT) return clamp(i, 0, last);
  if (i < 0) i = -i;
  if (i > last) i = 2 * last - i;
  return clamp(i, 0, last);
}

// The outputs that map to `i` along one axis: candidate k of a few (-1: none). Repeated edges have a run of them.
int first_of(int d, int i) { return i == 0 ? 0 : max(i + p.pad[d], 0); }
int candidates(int d, int i) {
  if (REFLECT) return 3;
  int end = i == p.in_size[d] - 1 ? p.out_size[d] : i + p.pad[d] + 1;
  return max(min(end, p.out_size[d]) - first_of(d, i), 0);
}
int candidate(int d, int i, int k) {
  int o;
  if (REFLECT) o = k == 0 ? i + p.pad[d] : k == 1 ? p.pad[d] - i : p.pad[d] + 2 * (p.in_size[d] - 1) - i;
  else o = first_of(d, i) + k;
  if (REFLECT && k == 1 && i == 0) return -1;
  if (REFLECT && k == 2 && i == p.in_size[d] - 1) return -1;
  return o >= 0 && o < p.out_size[d] && map(d, o) == i ? o : -1;
}

void main() {
  uint64_t id = linear_invocation();
  if (id >= p.n) return;
  int out_plane = p.out_size[0] * p.out_size[1] * p.out_size[2];
  int in_plane = p.in_size[0] * p.in_size[1] * p.in_size[2];
#ifdef DIRECTION_forward
  uint64_t plane = id / uint64_t(out_plane);
  int o = int(id - plane * uint64_t(out_plane));
  int z = map(0, o / (p.out_size[1] * p.out_size[2])), y = map(1, (o / p.out_size[2]) % p.out_size[1]),
      x = map(2, o % p.out_size[2]);
  store_raw(p.out_, id, DTYPE, load_raw(p.in_, plane * uint64_t(in_plane) +
      uint64_t((z * p.in_size[1] + y) * p.in_size[2] + x), DTYPE));
#else
  uint64_t plane = id / uint64_t(in_plane);
  int i = int(id - plane * uint64_t(in_plane));
  int at[3] = int[3](i / (p.in_size[1] * p.in_size[2]), (i / p.in_size[2]) % p.in_size[1], i % p.in_size[2]);
  REAL sum = REAL(0);
  for (int a = 0; a < candidates(0, at[0]); ++a) {
    int z = candidate(0, at[0], a);
    if (z < 0) continue;
    for (int b = 0; b < candidates(1, at[1]); ++b) {
      int y = candidate(1, at[1], b);
      if (y < 0) continue;
      for (int c = 0; c < candidates(2, at[2]); ++c) {
        int x = candidate(2, at[2], c);
        if (x < 0) continue;
        sum += LOAD(p.in_, plane * uint64_t(out_plane) + uint64_t((z * p.out_size[1] + y) * p.out_size[2] + x), DTYPE);
      }
    }
  }
  STORE(p.out_, id, DTYPE, sum);
#endif
}

#pragma aule axis DIRECTION forward backward
#pragma aule axis C float double int64_t
#pragma aule feature float64 if C=double
// Average pooling, fixed or adaptive windows.
//   forward:  out[n, o] = sum over window(o) of in[n, i] / count(o)
//   backward: grad_in[n, i] = sum of grad_out[n, o] / count(o) over the windows that hold i: gathered, so no atomics
// count(o): the window's size; with COUNT_PAD padded cells count too (up to the padded edge), `divisor` overrides both.
// Layout: planes (batch x channel) of contiguous D x H x W.
layout(local_size_x = 64) in;
#include "pool/window.glsl"
#include "common/real.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool ADAPTIVE = false;
layout(constant_id = 2) const bool COUNT_PAD = true;
struct Params {
  uint64_t in_, out_;  // backward: in_ = grad_out, out_ = grad_in
  uint64_t n;
  int in_size[3], out_size[3], kernel[3], stride[3], pad[3];
  int divisor;  // 0: none given
};
#include "common/params.glsl"

// The window of output `o` clipped to the input, and how many cells it counts for.
int window(int d, int o, out int begin, out int end) {
  if (ADAPTIVE) {
    begin = adaptive_begin(o, p.in_size[d], p.out_size[d]);
    end = adaptive_end(o, p.in_size[d], p.out_size[d]);
    return end - begin;
  }
  begin = o * p.stride[d] - p.pad[d];
  end = min(begin + p.kernel[d], p.in_size[d] + p.pad[d]);
  int padded = end - begin;
  begin = max(begin, 0);
  end = min(end, p.in_size[d]);
  return COUNT_PAD ? padded : end - begin;
}

void main() {
  uint64_t id = linear_invocation();
  if (id >= p.n) return;
  int out_plane = p.out_size[0] * p.out_size[1] * p.out_size[2];
  int in_plane = p.in_size[0] * p.in_size[1] * p.in_size[2];
#ifdef DIRECTION_forward
  uint64_t plane = id / uint64_t(out_plane);
  int o = int(id - plane * uint64_t(out_plane));
  int b[3], e[3];
  int count = window(0, o / (p.out_size[1] * p.out_size[2]), b[0], e[0]);
  count *= window(1, (o / p.out_size[2]) % p.out_size[1], b[1], e[1]);
  count *= window(2, o % p.out_size[2], b[2], e[2]);
  if (p.divisor != 0) count = p.divisor;
  uint64_t base = plane * uint64_t(in_plane);
  REAL sum = REAL(0);
  for (int z = b[0]; z < e[0]; ++z)
    for (int y = b[1]; y < e[1]; ++y)
      for (int x = b[2]; x < e[2]; ++x) sum += LOAD(p.in_,
          base + uint64_t((z * p.in_size[1] + y) * p.in_size[2] + x), DTYPE);
  STORE(p.out_, id, DTYPE, sum / REAL(count));
#else
  uint64_t plane = id / uint64_t(in_plane);
  int i = int(id - plane * uint64_t(in_plane));
  int at[3] = int[3](i / (p.in_size[1] * p.in_size[2]), (i / p.in_size[2]) % p.in_size[1], i % p.in_size[2]);
  int first[3], last[3];
  for (int d = 0; d < 3; ++d) {
    if (ADAPTIVE) {
      first[d] = max((at[d] * p.out_size[d]) / p.in_size[d] - 1, 0);
      last[d] = min(((at[d] + 1) * p.out_size[d] + p.in_size[d] - 1) / p.in_size[d], p.out_size[d]);
    } else {
      int low = at[d] + p.pad[d] - p.kernel[d] + 1;
      first[d] = low <= 0 ? 0 : (low + p.stride[d] - 1) / p.stride[d];
      last[d] = min((at[d] + p.pad[d]) / p.stride[d] + 1, p.out_size[d]);
    }
  }
  uint64_t base = plane * uint64_t(out_plane);
  REAL sum = REAL(0);
  for (int z = first[0]; z < last[0]; ++z) {
    int b0, e0, n0 = window(0, z, b0, e0);
    if (at[0] < b0 || at[0] >= e0) continue;
    for (int y = first[1]; y < last[1]; ++y) {
      int b1, e1, n1 = window(1, y, b1, e1);
      if (at[1] < b1 || at[1] >= e1) continue;
      for (int x = first[2]; x < last[2]; ++x) {
        int b2, e2, n2 = window(2, x, b2, e2);
        if (at[2] < b2 || at[2] >= e2) continue;
        int count = p.divisor != 0 ? p.divisor : n0 * n1 * n2;
        sum += LOAD(p.in_, base + uint64_t((z * p.out_size[1] + y) * p.out_size[2] + x), DTYPE) / REAL(count);
      }
    }
  }
  STORE(p.out_, id, DTYPE, sum);
#endif
}

#pragma aule axis DIRECTION forward backward
#pragma aule axis C float double int64_t
#pragma aule skip DIRECTION=backward C=int64_t
#pragma aule feature float64 if C=double
// Max pooling, fixed or adaptive windows, with the index of the maximum inside the plane (d*H*W + h*W + w).
//   forward:  out[n, o] = max over window(o) of in[n, i]; the first maximum wins, NaN wins over all (as on the CPU)
//   backward: grad_in[n, i] = sum of grad_out[n, o] over the windows whose recorded index is i: gathered, so no atomics
// Layout: planes (batch x channel) of contiguous D x H x W. One invocation per output (forward) or input (backward)
// element.
layout(local_size_x = 64) in;
#include "pool/window.glsl"
#include "common/float_bits.glsl"
#include "common/real.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool ADAPTIVE = false;
struct Params {
  uint64_t in_, out_, indices;  // backward: in_ = grad_out, out_ = grad_in
  uint64_t n;                   // invocations
  int in_size[3], out_size[3], kernel[3], stride[3], pad[3], dilation[3];
};
#include "common/params.glsl"

#ifdef DIRECTION_forward
void main() {
  uint64_t id = linear_invocation();
  if (id >= p.n) return;
  int out_plane = p.out_size[0] * p.out_size[1] * p.out_size[2];
  int in_plane = p.in_size[0] * p.in_size[1] * p.in_size[2];
  uint64_t plane = id / uint64_t(out_plane);
  int o = int(id - plane * uint64_t(out_plane));
  int at[3] = int[3](o / (p.out_size[1] * p.out_size[2]), (o / p.out_size[2]) % p.out_size[1], o % p.out_size[2]);
  int begin[3], end[3], step_[3];
  for (int d = 0; d < 3; ++d) {
    if (ADAPTIVE) {
      begin[d] = adaptive_begin(at[d], p.in_size[d], p.out_size[d]);
      end[d] = adaptive_end(at[d], p.in_size[d], p.out_size[d]);
      step_[d] = 1;
    } else {
      begin[d] = at[d] * p.stride[d] - p.pad[d];
      end[d] = min(begin[d] + (p.kernel[d] - 1) * p.dilation[d] + 1, p.in_size[d]);
      step_[d] = p.dilation[d];
      while (begin[d] < 0) begin[d] += step_[d];
    }
  }
  uint64_t base = plane * uint64_t(in_plane);
#ifdef C_int64_t
  REAL best = int64_t(1) << 63;
#else
  REAL best = REAL(-AULE_INF);
#endif
  int best_at = (begin[0] * p.in_size[1] + begin[1]) * p.in_size[2] + begin[2];
  for (int z = begin[0]; z < end[0]; z += step_[0])
    for (int y = begin[1]; y < end[1]; y += step_[1])
      for (int x = begin[2]; x < end[2]; x += step_[2]) {
        int i = (z * p.in_size[1] + y) * p.in_size[2] + x;
        REAL v = LOAD(p.in_, base + uint64_t(i), DTYPE);
        if (v > best || is_nan(v)) {
          best = v;
          best_at = i;
        }
      }
  STORE(p.out_, id, DTYPE, best);
  if (p.indices != uint64_t(0)) I64Ref(p.indices + id * 8).v = int64_t(best_at);
}
#else
void main() {
  uint64_t id = linear_invocation();
  if (id >= p.n) return;
  int out_plane = p.out_size[0] * p.out_size[1] * p.out_size[2];
  int in_plane = p.in_size[0] * p.in_size[1] * p.in_size[2];
  uint64_t plane = id / uint64_t(in_plane);
  int i = int(id - plane * uint64_t(in_plane));
  int at[3] = int[3](i / (p.in_size[1] * p.in_size[2]), (i / p.in_size[2]) % p.in_size[1], i % p.in_size[2]);
  // Outputs whose window may hold this input.
  int first[3], last[3];
  for (int d = 0; d < 3; ++d) {
    if (ADAPTIVE) {
      first[d] = (at[d] * p.out_size[d]) / p.in_size[d];
      last[d] = min(((at[d] + 1) * p.out_size[d] + p.in_size[d] - 1) / p.in_size[d], p.out_size[d]);
      first[d] = max(first[d] - 1, 0);
    } else {
      int reach = (p.kernel[d] - 1) * p.dilation[d];
      int low = at[d] + p.pad[d] - reach;
      first[d] = low <= 0 ? 0 : (low + p.stride[d] - 1) / p.stride[d];
      last[d] = min((at[d] + p.pad[d]) / p.stride[d] + 1, p.out_size[d]);
    }
  }
  uint64_t base = plane * uint64_t(out_plane);
  REAL sum = REAL(0);
  for (int z = first[0]; z < last[0]; ++z)
    for (int y = first[1]; y < last[1]; ++y)
      for (int x = first[2]; x < last[2]; ++x) {
        uint64_t o = base + uint64_t((z * p.out_size[1] + y) * p.out_size[2] + x);
        if (int(I64Ref(p.indices + o * 8).v) == i) sum += LOAD(p.in_, o, DTYPE);
      }
  STORE(p.out_, id, DTYPE, sum);
}
#endif

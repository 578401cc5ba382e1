#pragma aule axis GRAD none input weight
// Grouped convolution without columns, for groups whose matrices are thin (depthwise above all). Shapes, all
// contiguous:
//   x[N, G*Ci, I], w[G*Co, Ci, K], y[N, G*Co, O] with I, K, O 3-D extents (1-D and 2-D have 1 in front)
//   none:   y[n, g*Co + co, o] = sum over ci, k of x[n, g*Ci + ci, o*stride - pad + k*dilation] * w[g*Co + co, ci, k]
//   input:  gx = the transpose over o;   weight: gw = the correlation over n and o
// One invocation per element of the result; float32 accumulation. A depthwise layer has few weights, each the sum over
// all positions of all images: so w is [parts][G*Co, Ci, K] there, and each part sums over `images` of them.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const int RESULT_DTYPE = 0;
struct Params {
  uint64_t x, w, y, n;  // n: invocations
  int size[3], out_size[3], kernel[3], stride[3], pad[3], dilation[3];
  int batch, groups, ci, co, images;
};
#include "common/params.glsl"

void main() {
  uint64_t id = linear_invocation();
  if (id >= p.n) return;
  int in_plane = p.size[0] * p.size[1] * p.size[2], out_plane = p.out_size[0] * p.out_size[1] * p.out_size[2];
  int taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
  float sum = 0.0;
#ifdef GRAD_none
  uint64_t plane = id / uint64_t(out_plane);
  int o = int(id - plane * uint64_t(out_plane));
  int channel = int(plane % uint64_t(p.groups * p.co)), g = channel / p.co;
  uint64_t batch = plane / uint64_t(p.groups * p.co);
  int ox = o % p.out_size[2], oy = (o / p.out_size[2]) % p.out_size[1], oz = o / (p.out_size[2] * p.out_size[1]);
  for (int ci = 0; ci < p.ci; ++ci) {
    uint64_t from = (batch * uint64_t(p.groups * p.ci) + uint64_t(g * p.ci + ci)) * uint64_t(in_plane);
    uint64_t weight = (uint64_t(channel) * uint64_t(p.ci) + uint64_t(ci)) * uint64_t(taps);
    for (int k = 0; k < taps; ++k) {
      int z = oz * p.stride[0] - p.pad[0] + k / (p.kernel[1] * p.kernel[2]) * p.dilation[0];
      int y = oy * p.stride[1] - p.pad[1] + (k / p.kernel[2]) % p.kernel[1] * p.dilation[1];
      int x = ox * p.stride[2] - p.pad[2] + k % p.kernel[2] * p.dilation[2];
      if (x < 0 || y < 0 || z < 0 || x >= p.size[2] || y >= p.size[1] || z >= p.size[0]) continue;
      sum += load_float(p.x, from + uint64_t((z * p.size[1] + y) * p.size[2] + x), DTYPE) *
          load_float(p.w, weight + uint64_t(k), DTYPE);
    }
  }
  store_float(p.y, id, RESULT_DTYPE, sum);
#elif defined(GRAD_input)
  uint64_t plane = id / uint64_t(in_plane);
  int i = int(id - plane * uint64_t(in_plane));
  int channel = int(plane % uint64_t(p.groups * p.ci)), g = channel / p.ci, ci = channel % p.ci;
  uint64_t batch = plane / uint64_t(p.groups * p.ci);
  int at[3] = int[3](i / (p.size[1] * p.size[2]), (i / p.size[2]) % p.size[1], i % p.size[2]);
  for (int k = 0; k < taps; ++k) {
    int t[3] = int[3](at[0] + p.pad[0] - k / (p.kernel[1] * p.kernel[2]) * p.dilation[0],
                      at[1] + p.pad[1] - (k / p.kernel[2]) % p.kernel[1] * p.dilation[1],
                          at[2] + p.pad[2] - k % p.kernel[2] * p.dilation[2]);
    bool inside = true;
    for (int d = 0; d < 3; ++d) {
      if (t[d] < 0 || t[d] % p.stride[d] != 0 || t[d] / p.stride[d] >= p.out_size[d]) inside = false;
      t[d] /= p.stride[d];
    }
    if (!inside) continue;
    int o = (t[0] * p.out_size[1] + t[1]) * p.out_size[2] + t[2];
    for (int co = 0; co < p.co; ++co) {
      uint64_t out_channel = uint64_t(g * p.co + co);
      sum += load_float(p.y, (batch * uint64_t(p.groups * p.co) + out_channel) * uint64_t(out_plane) + uint64_t(o),
          DTYPE) *
             load_float(p.w, (out_channel * uint64_t(p.ci) + uint64_t(ci)) * uint64_t(taps) + uint64_t(k), DTYPE);
    }
  }
  store_float(p.x, id, RESULT_DTYPE, sum);
#else
  int k = int(id % uint64_t(taps));
  int ci = int((id / uint64_t(taps)) % uint64_t(p.ci));
  uint64_t row = id / uint64_t(taps * p.ci);
  int channel = int(row % uint64_t(p.groups * p.co)), g = channel / p.co;
  int first = int(row / uint64_t(p.groups * p.co)) * p.images;
  int kz = k / (p.kernel[1] * p.kernel[2]), ky = (k / p.kernel[2]) % p.kernel[1], kx = k % p.kernel[2];
  for (int n = first; n < min(first + p.images, p.batch); ++n) {
    uint64_t from = (uint64_t(n) * uint64_t(p.groups * p.ci) + uint64_t(g * p.ci + ci)) * uint64_t(in_plane);
    uint64_t out_ = (uint64_t(n) * uint64_t(p.groups * p.co) + uint64_t(channel)) * uint64_t(out_plane);
    float part = 0.0;  // one partial sum per image keeps the error of long sums small
    for (int oz = 0; oz < p.out_size[0]; ++oz) {
      int z = oz * p.stride[0] - p.pad[0] + kz * p.dilation[0];
      if (z < 0 || z >= p.size[0]) continue;
      for (int oy = 0; oy < p.out_size[1]; ++oy) {
        int y = oy * p.stride[1] - p.pad[1] + ky * p.dilation[1];
        if (y < 0 || y >= p.size[1]) continue;
        for (int ox = 0; ox < p.out_size[2]; ++ox) {
          int x = ox * p.stride[2] - p.pad[2] + kx * p.dilation[2];
          if (x < 0 || x >= p.size[2]) continue;
          part += load_float(p.x, from + uint64_t((z * p.size[1] + y) * p.size[2] + x), DTYPE) *
                  load_float(p.y, out_ + uint64_t((oz * p.out_size[1] + oy) * p.out_size[2] + ox), DTYPE);
        }
      }
    }
    sum += part;
  }
  store_float(p.w, id, RESULT_DTYPE, sum);
#endif
}

#pragma aule axis DIRECTION im2col col2im
#pragma aule axis C float double int64_t
#pragma aule skip DIRECTION=im2col C=double
#pragma aule skip DIRECTION=im2col C=int64_t
#pragma aule feature float64 if C=double
// Convolution windows as matrix columns, in 3-D (1-D and 2-D have extents of 1 in front):
//   im2col: columns[n, (c, kz, ky, kx), (oz, oy, ox)] = image[n, c, o * stride - pad + k * dilation], 0 outside
//   col2im: image[n, c, i] = sum of the columns' entries that im2col would have read from it: gathered, so no atomics
// Image and columns are contiguous. One invocation per element of the result; lanes run along the innermost axis.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"
layout(constant_id = 0) const int DTYPE = 0;  // im2col: a RAW code (bits move); col2im: the dtype
struct Params {
  uint64_t image, columns;
  uint64_t n;  // invocations
  int size[3], out_size[3], kernel[3], stride[3], pad[3], dilation[3];
};
#include "common/params.glsl"

void main() {
  uint64_t id = linear_invocation();
  if (id >= p.n) return;
  uint64_t plane_size = uint64_t(p.size[0]) * uint64_t(p.size[1]) * uint64_t(p.size[2]);
  uint64_t positions = uint64_t(p.out_size[0]) * uint64_t(p.out_size[1]) * uint64_t(p.out_size[2]);
  int taps = p.kernel[0] * p.kernel[1] * p.kernel[2];
#ifdef DIRECTION_im2col
  uint64_t row = id / positions;
  int o = int(id - row * positions);
  uint64_t plane = row / uint64_t(taps);
  int tap = int(row - plane * uint64_t(taps));
  int ox = o % p.out_size[2], oy = (o / p.out_size[2]) % p.out_size[1], oz = o / (p.out_size[2] * p.out_size[1]);
  int kx = tap % p.kernel[2], ky = (tap / p.kernel[2]) % p.kernel[1], kz = tap / (p.kernel[2] * p.kernel[1]);
  int x = ox * p.stride[2] - p.pad[2] + kx * p.dilation[2];
  int y = oy * p.stride[1] - p.pad[1] + ky * p.dilation[1];
  int z = oz * p.stride[0] - p.pad[0] + kz * p.dilation[0];
  uvec4 v = uvec4(0);
  if (x >= 0 && y >= 0 && z >= 0 && x < p.size[2] && y < p.size[1] && z < p.size[0])
    v = load_raw(p.image, plane * plane_size + uint64_t((z * p.size[1] + y) * p.size[2] + x), DTYPE);
  store_raw(p.columns, id, DTYPE, v);
#else
  uint64_t plane = id / plane_size;
  int i = int(id - plane * plane_size);
  int at[3] = int[3](i / (p.size[1] * p.size[2]), (i / p.size[2]) % p.size[1], i % p.size[2]);
  REAL sum = REAL(0);
  for (int kz = 0; kz < p.kernel[0]; ++kz) {
    int tz = at[0] + p.pad[0] - kz * p.dilation[0];
    if (tz < 0 || tz % p.stride[0] != 0 || tz / p.stride[0] >= p.out_size[0]) continue;
    for (int ky = 0; ky < p.kernel[1]; ++ky) {
      int ty = at[1] + p.pad[1] - ky * p.dilation[1];
      if (ty < 0 || ty % p.stride[1] != 0 || ty / p.stride[1] >= p.out_size[1]) continue;
      for (int kx = 0; kx < p.kernel[2]; ++kx) {
        int tx = at[2] + p.pad[2] - kx * p.dilation[2];
        if (tx < 0 || tx % p.stride[2] != 0 || tx / p.stride[2] >= p.out_size[2]) continue;
        uint64_t row = plane * uint64_t(taps) + uint64_t((kz * p.kernel[1] + ky) * p.kernel[2] + kx);
        uint64_t o = uint64_t((tz / p.stride[0] * p.out_size[1] + ty / p.stride[1]) * p.out_size[2] + tx / p.stride[2]);
        sum += LOAD(p.columns, row * positions + o, DTYPE);
      }
    }
  }
  STORE(p.image, id, DTYPE, sum);
#endif
}

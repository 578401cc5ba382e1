#pragma aule axis T float16_t bfloat16_t
#pragma aule feature cooperative_matrix
#pragma aule feature float16
#pragma aule feature bfloat16 if T=bfloat16_t
// Places of the elements of a cooperative matrix on a device: loads a matrix whose element (r, c) is r * 16 + c as A, B
// and accumulator, and writes what every lane sees. One workgroup of one subgroup; run once per device and dtype. out_:
// {elements of A, of B, of the accumulator, subgroup size and 65536 if conversions to T truncate}, then [use][lane][8],
// then A * B as float32 [16][16], by which the host knows whether to believe any of it (csrc/ops/coopmat/probe.h).
#include "common/coopmat_types.glsl"
layout(constant_id = 2) const int LOCAL = 1;
layout(local_size_x_id = 2) in;
struct Params { uint64_t out_; };
#include "common/params.glsl"
#include "common/dtype.glsl"

shared T index16[256];
shared float index32[256];

void put(uint use_, uint e, float v) {
  if (e < 8u) U32Ref(p.out_ + 16 + ((use_ * 128 + gl_SubgroupInvocationID) * 8 + e) * 4).v = uint(v);
}

void main() {
  for (uint i = gl_LocalInvocationIndex; i < 256; i += gl_WorkGroupSize.x) {
    index16[i] = T(float(i));
    index32[i] = float(i);
  }
  barrier();  // the index matrices are written
  MatA a;
  MatB b;
  Acc c;
  coopMatLoad(a, index16, 0, 16, ROW_MAJOR);
  coopMatLoad(b, index16, 0, 16, ROW_MAJOR);
  coopMatLoad(c, index32, 0, 16, ROW_MAJOR);
  Acc product = coopMatMulAdd(a, b, Acc(0.0));
  for (uint e = 0; e < a.length(); ++e) put(0, e, float(a[e]));
  for (uint e = 0; e < b.length(); ++e) put(1, e, float(b[e]));
  for (uint e = 0; e < c.length(); ++e) put(2, e, c[e]);
  if (gl_LocalInvocationIndex == 0) {
    const T above = T(index32[1] * uintBitsToFloat(0x3f80c000u));  // 1 and three quarters of bfloat16's last place
    const bool truncates = float(above) == 1.0;
    U32x4Ref(p.out_).v = uvec4(a.length(), b.length(), c.length(), gl_SubgroupSize | (truncates ? 65536u : 0u));
  }
  barrier();  // index32 is read
  coopMatStore(product, index32, 0, 16, ROW_MAJOR);
  barrier();  // the product is written
  for (uint i = gl_LocalInvocationIndex; i < 256; i += gl_WorkGroupSize.x)
    F32Ref(p.out_ + 16 + 3 * 128 * 8 * 4 + i * 4).v = index32[i];
}

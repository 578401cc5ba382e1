// A weight as the lanes of NVIDIA's 16 x 16 matrices hold it, for halo_conv.comp: out[tap][k / 16][n / 16][lane] of 16
// bytes. Element e of lane l is k = l % 4 * 2 + {0, 1, 8, 9}[e % 4] and n = l / 4 + e / 4 * 8 of its matrix
// (docs/design/matmul.md); zeros past n and k. One invocation for each lane. SCALED: w is float32, which becomes
// scaled halves (half_scale.glsl).
layout(local_size_x = 256) in;
#include "common/indexing.glsl"
#include "common/dtype.glsl"
#include "common/half.glsl"
#include "matmul/half_scale.glsl"
layout(constant_id = 0) const bool SCALED = false;
struct Params {
  uint64_t w, out_, largest;
  uint n, k, taps, matrices_n, matrices_k;
  uint stride_n, stride_k, stride_tap;  // elements of w
};
#include "common/params.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec16b { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer Element { uint16_t v; };

void main() {
  const uint at = uint(linear_invocation()), lane = at % 32, matrix = at / 32;
  const uint n0 = matrix % p.matrices_n * 16 + lane / 4, k0 = matrix / p.matrices_n % p.matrices_k * 16 + lane % 4 * 2;
  const uint tap = matrix / p.matrices_n / p.matrices_k;
  if (tap < p.taps) {
    uvec4 v = uvec4(0);
    float scale = 1;
    if (SCALED) scale = power_of_two(half_exponent(F32Ref(p.largest).v));
    [[unroll]] for (uint e = 0; e < 8; ++e) {
      const uint n = n0 + e / 4 * 8, k = k0 + e % 2 + e % 4 / 2 * 8;
      if (n < p.n && k < p.k) {
        const uint64_t from = p.w + uint64_t(n * p.stride_n + k * p.stride_k + tap * p.stride_tap) * (SCALED ? 4 : 2);
        v[e / 2] |= (SCALED ? float_to_f16(F32Ref(from).v * scale) : uint(Element(from).v)) << e % 2 * 16;
      }
    }
    Vec16b(p.out_ + uint64_t(at) * 16).v = v;
  }
}

// Eight columns of a row of query, key or value, for the split-KV kernels; sixteen of keys and values in 8 bits.
// Include after ALIGNED (16-byte loads).
#ifndef AULE_ATTENTION_VEC8_GLSL
#define AULE_ATTENTION_VEC8_GLSL
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Vec8F32Ref { vec4 low, high; };
struct Vec8 { vec4 low, high; };

// Eight columns as loaded (aligned 16-bit ones fill `a`). Many loads are in flight before the first is unpacked.
struct RawVec8 { uvec4 a, b; };
RawVec8 load_raw(uint64_t row, int column, int dim) {
  RawVec8 x;
  x.b = uvec4(0);
  if (ALIGNED && DTYPE == AULE_DT_F32) {
    Vec8F32Ref at = Vec8F32Ref(row + uint64_t(uint(column)) * 4);
    x.a = floatBitsToUint(at.low);
    x.b = floatBitsToUint(at.high);
  } else if (ALIGNED) {
    x.a = Vec16bRef(row + uint64_t(uint(column)) * 2).v;
  } else {
    [[unroll]] for (int i = 0; i < 4; ++i) {
      const int a = min(column + i, dim - 1), c = min(column + 4 + i, dim - 1);
      const float low = load_float(row, uint64_t(a), DTYPE), high = load_float(row, uint64_t(c), DTYPE);
      x.a[i] = floatBitsToUint(column + i < dim ? low : 0.0);
      x.b[i] = floatBitsToUint(column + 4 + i < dim ? high : 0.0);
    }
  }
  return x;
}
Vec8 unpack(RawVec8 x) {
  Vec8 y;
  if (ALIGNED && DTYPE != AULE_DT_F32) {
    y.low = vec4(pair(x.a.x), pair(x.a.y));
    y.high = vec4(pair(x.a.z), pair(x.a.w));
  } else {
    y.low = uintBitsToFloat(x.a);
    y.high = uintBitsToFloat(x.b);
  }
  return y;
}

// Rows of a cache in 8 bits: int8 numbers, and for each block of 32 a bfloat16 scale by which they are multiplied. The
// scales are dense as the numbers are, so those of a row lie at a sixteenth of its offset.
// Sixteen columns from `column` on, a multiple of 16, in `a`; the scale in `b`. `rows`: row 0 of the cache.
RawVec8 load_int8(uint64_t row, uint64_t rows, uint64_t scales, int column) {
  RawVec8 x;
  x.a = Vec16bRef(row + uint64_t(uint(column))).v;
  x.b = uvec4(uint(U16Ref(scales + (row - rows) / 16 + uint64_t(uint(column / 32 * 2))).v), 0u, 0u, 0u);
  return x;
}
float scale_of(RawVec8 x) { return bf16_to_float(x.b.x); }

// The bytes of a word in two's complement, as floats. Fewer instructions than four conversions: the bits of 2^23 + n
// are those of 2^23 and n, and the difference is exact.
vec4 floats_of_int8(uint word) {
  const uint biased = word ^ 0x80808080u;  // n + 128
  const uvec4 n = uvec4(biased & 0xffu, biased >> 8 & 0xffu, biased >> 16 & 0xffu, biased >> 24);
  return uintBitsToFloat(n | 0x4b000000u) - 8388736.0;
}
Vec8 vec8_of_int8(uvec2 words) { return Vec8(floats_of_int8(words.x), floats_of_int8(words.y)); }

// The sum of the products of sixteen columns, without their scale.
float products(RawVec8 x, Vec8 left, Vec8 right) {
  const Vec8 a = vec8_of_int8(x.a.xy), b = vec8_of_int8(x.a.zw);
  float y = a.low[0] * left.low[0];
  [[unroll]] for (int d = 1; d < 4; ++d) y = fma(a.low[d], left.low[d], y);
  [[unroll]] for (int d = 0; d < 4; ++d) y = fma(a.high[d], left.high[d], y);
  [[unroll]] for (int d = 0; d < 4; ++d) y = fma(b.low[d], right.low[d], y);
  [[unroll]] for (int d = 0; d < 4; ++d) y = fma(b.high[d], right.high[d], y);
  return y;
}
#endif

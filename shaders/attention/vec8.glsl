// Eight columns of a row of query, key or value, for the split-KV kernels. Include after ALIGNED (16-byte loads).
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
#endif

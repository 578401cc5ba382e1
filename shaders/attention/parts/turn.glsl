// Pairs that rotary positions turn: W elements of a token and the W beside them. The kernel has declared DTYPE,
// TABLE_DTYPE, INTERLEAVED, INVERSE and W: rotary.comp says what they are.
#ifndef AULE_ATTENTION_TURN_GLSL
#define AULE_ATTENTION_TURN_GLSL
#include "common/vec16b.glsl"
const int HELD = W == 1 ? AULE_DT_F32 : DTYPE;  // the dtype of load_raw_many()'s result
// W elements as in memory, at most 16 bytes. A single one as a float.
uvec4 load_raw_many(uint64_t base, uint64_t i) {
  if (W > 1) return Vec16bRef(base + i * (DTYPE == AULE_DT_F32 ? 4 : 2)).v;
  return uvec4(floatBitsToUint(load_float(base, i, DTYPE)), 0u, 0u, 0u);
}
void load_table(uint64_t base, uint64_t i, out float v[MAX_E]) {
  if (TABLE_DTYPE == AULE_DT_F32 && W >= 4) {
    [[unroll]] for (int q = 0; q < MAX_E / 4; ++q) {
      if (4 * q >= W) continue;
      const vec4 b = uintBitsToFloat(Vec16bRef(base + (i + 4 * q) * 4).v);
      [[unroll]] for (int k = 0; k < 4; ++k) v[4 * q + k] = b[k];
    }
  } else if (TABLE_DTYPE != AULE_DT_F32 && W == 8) {
    const uvec4 b = Vec16bRef(base + i * 2).v;
    [[unroll]] for (int k = 0; k < MAX_E; ++k) v[k] = element_of(b, uint(k), TABLE_DTYPE);
  } else {
    [[unroll]] for (int k = 0; k < MAX_E; ++k)
      if (k < W) v[k] = load_float(base, i + k, TABLE_DTYPE);
  }
}
void store_many(uint64_t base, uint64_t i, float v[MAX_E]) {
  if (W > 1) Vec16bRef(base + i * (DTYPE == AULE_DT_F32 ? 4 : 2)).v = to_vec16b(v);
  else store_float(base, i, DTYPE, v[0]);
}

// The elements `left` and `right`, turned by cosines c and sines s, or as they are.
void turn(uvec4 left, uvec4 right, bool turns, float c[MAX_E], float s[MAX_E], out float u[MAX_E],
    out float v[MAX_E]) {
  float a[MAX_E], b[MAX_E];
  [[unroll]] for (int k = 0; k < MAX_E; ++k) {
    if (k >= W) continue;
    a[k] = element_of(left, uint(k), HELD);
    b[k] = element_of(right, uint(k), HELD);
  }
  [[unroll]] for (int k = 0; k < MAX_E; ++k) {
    if (k >= W) continue;
    if (!turns) {
      u[k] = a[k];
      v[k] = b[k];
    } else if (INTERLEAVED) {
      // Pair k is elements 2 k and 2 k + 1 of a and b one after the other.
      const float e = 2 * k < W ? a[2 * k % W] : b[2 * k % W];
      const float o = 2 * k + 1 < W ? a[(2 * k + 1) % W] : b[(2 * k + 1) % W];
      const float t = INVERSE ? -s[k] : s[k], even = e * c[k] - o * t, odd = e * t + o * c[k];
      if (2 * k < W) u[2 * k % W] = even; else v[2 * k % W] = even;
      if (2 * k + 1 < W) u[(2 * k + 1) % W] = odd; else v[(2 * k + 1) % W] = odd;
    } else {
      const float t = INVERSE ? -s[k] : s[k];
      u[k] = a[k] * c[k] - b[k] * t;
      v[k] = a[k] * t + b[k] * c[k];
    }
  }
}

// The places of a task's two times W elements; tasks below `turning` turn.
uvec2 places(uint task, uint turning) {
  if (task < turning && !INTERLEAVED) return uvec2(W * task, W * (task + turning));
  return uvec2(2u * W * task, 2u * W * task + W);
}
#endif

// Loads of the decoders (decode.glsl). The kernel has declared ALIGN.
#ifndef AULE_QUANTIZED_DECODE_LOADS_GLSL
#define AULE_QUANTIZED_DECODE_LOADS_GLSL
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer Aligned8Ref { uvec2 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer Aligned16Ref { uvec4 v; };
uvec2 bytes_8(uint64_t at) {
  if (ALIGN >= 8) return Aligned8Ref(at).v;
  return U32x2Ref(at).v;
}
uvec4 bytes_16(uint64_t at) {
  if (ALIGN >= 16) return Aligned16Ref(at).v;
  return uvec4(bytes_8(at), bytes_8(at + 8));
}
// The bits of a scale, zero or code of a group, and their number.
uint bits_of(uint64_t base, uint64_t i, int dt) {
  if (dt == AULE_DT_F32) return U32Ref(base + i * 4).v;
  if (dt == AULE_DT_F16 || dt == AULE_DT_BF16) return uint(U16Ref(base + i * 2).v);
  return uint(U8Ref(base + i).v);
}
float number_of_bits(uint bits, int dt) {
  if (dt == AULE_DT_F32) return uintBitsToFloat(bits);
  if (dt == AULE_DT_F16) return unpackHalf2x16(bits).x;
  if (dt == AULE_DT_BF16) return bf16_to_float(bits);
  return dt == AULE_DT_I8 ? float(bitfieldExtract(int(bits), 0, 8)) : float(bits);
}
// Decoders load through these. A kernel with HELD_LOADS calls a decoder twice: with `loads` it loads words, each to a
// place of its own in `raw`, and what it makes of them is not used; later, without, it takes them from there.
#ifdef HELD_LOADS
struct Raw {
  uint w[16];
};
Raw raw;
bool loads;
#define HELD(place, what) \
  if (loads) raw.w[place] = what; \
  return raw.w[place];
#else
#define HELD(place, what) return what;
#endif
uint load_word(int place, uint64_t at) { HELD(place, U32Ref(at).v) }
uint load_byte(int place, uint64_t at) { HELD(place, uint(U8Ref(at).v)) }
uint load_bits(int place, uint64_t base, uint64_t i, int dt) { HELD(place, bits_of(base, i, dt)) }
#ifdef HELD_LOADS
uvec2 load_8_bytes(int place, uint64_t at) {
  if (loads) {
    const uvec2 v = bytes_8(at);
    raw.w[place] = v.x;
    raw.w[place + 1] = v.y;
  }
  return uvec2(raw.w[place], raw.w[place + 1]);
}
uvec4 load_16_bytes(int place, uint64_t at) {
  if (loads) {
    const uvec4 v = bytes_16(at);
    [[unroll]] for (int i = 0; i < 4; ++i) raw.w[place + i] = v[i];
  }
  return uvec4(raw.w[place], raw.w[place + 1], raw.w[place + 2], raw.w[place + 3]);
}
#else
uvec2 load_8_bytes(int place, uint64_t at) { return bytes_8(at); }
uvec4 load_16_bytes(int place, uint64_t at) { return bytes_16(at); }
#endif
float load_half(int place, uint64_t at) {
  return number_of_bits(load_bits(place, at, uint64_t(0), AULE_DT_F16), AULE_DT_F16);
}
vec2 load_2_halves(int place, uint64_t at) { return unpackHalf2x16(load_word(place, at)); }
#endif

// Four consecutive elements of a float dtype through 64-bit accesses; the first one's index is a multiple of 4.
uint64_t bits_at(uint64_t address) { return uint64_t(I64Ref(address).v); }
vec4 load_vec4(uint64_t base, uint64_t i, int dt) {
  if (dt == AULE_DT_F32) {
    uvec2 a = unpack32(bits_at(base + i * 4)), b = unpack32(bits_at(base + i * 4 + 8));
    return vec4(uintBitsToFloat(a), uintBitsToFloat(b));
  }
  uvec2 w = unpack32(bits_at(base + i * 2));
  if (dt == AULE_DT_F16) return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
  return vec4(uintBitsToFloat(w.x << 16), uintBitsToFloat(w.x & 0xffff0000u), uintBitsToFloat(w.y << 16),
      uintBitsToFloat(w.y & 0xffff0000u));
}
void store_vec4(uint64_t base, uint64_t i, int dt, vec4 x) {
  if (dt == AULE_DT_F32) {
    I64Ref(base + i * 4).v = int64_t(pack64(floatBitsToUint(x.xy)));
    I64Ref(base + i * 4 + 8).v = int64_t(pack64(floatBitsToUint(x.zw)));
    return;
  }
  uvec2 w;
  if (dt == AULE_DT_F16) w = uvec2(packHalf2x16(x.xy), packHalf2x16(x.zw));
  else w = uvec2(float_to_bf16(x.x) | float_to_bf16(x.y) << 16, float_to_bf16(x.z) | float_to_bf16(x.w) << 16);
  I64Ref(base + i * 2).v = int64_t(pack64(w));
}

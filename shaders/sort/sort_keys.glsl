// Values as unsigned 64-bit keys in the sorted order: NaN after all numbers, -0 equal to 0.
//
// Dtypes of up to 32 bits have key << 32 | position. Keys are then unique, so any sort is stable. 64-bit dtypes have
// the key alone, and the position in an array of its own. Descending order complements the key, not the position.
#include "common/dtype.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer KeyRef { uint64_t v; };

bool wide_key(int dt) { return dt == AULE_DT_F64 || dt == AULE_DT_I64; }

uint64_t sort_key(uint64_t base, uint64_t i, uint position, int dt, bool descending) {
  const uint64_t sign = uint64_t(1) << 63;
  if (dt == AULE_DT_F64) {
    uint64_t u = KeyRef(base + i * 8).v;
    if ((u & ~sign) > (uint64_t(0x7ff00000u) << 32)) u = ~uint64_t(0);
    else if (u == sign) u = sign;
    else u = (u & sign) != uint64_t(0) ? ~u : u | sign;
    return descending ? ~u : u;
  }
  if (dt == AULE_DT_I64) {
    uint64_t u = KeyRef(base + i * 8).v ^ sign;
    return descending ? ~u : u;
  }
  uint u;
  if (dt == AULE_DT_F32 || dt == AULE_DT_F16 || dt == AULE_DT_BF16) {
    u = floatBitsToUint(load_float(base, i, dt));
    if ((u & 0x7fffffffu) > 0x7f800000u) u = 0xffffffffu;
    else if (u == 0x80000000u) u = 0x80000000u;
    else u = (u & 0x80000000u) != 0u ? ~u : u | 0x80000000u;
  } else {
    u = uint(load_int(base, i, dt)) ^ 0x80000000u;
  }
  if (descending) u = ~u;
  return uint64_t(u) << 32 | uint64_t(position);
}

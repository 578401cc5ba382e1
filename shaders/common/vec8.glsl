// VEC_ELEMS (4 or 8, defined before) consecutive elements of any storage dtype as accesses of up to 16 bytes. Include
// after dtype.glsl. Addresses are aligned to VEC_ELEMS * element size, 16 bytes at most. Wide words are faster on
// lavapipe 22.3, too: a global load there loops over the lanes once per component.
#ifndef AULE_VEC8_GLSL
#define AULE_VEC8_GLSL
#include "common/half.glsl"
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer U64Ref { uint64_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer U64x2Ref { u64vec2 v; };

int dtype_bytes(int dt) {
  if (dt == AULE_DT_F64 || dt == AULE_DT_I64 || dt == AULE_DT_RAW8 || dt == AULE_DT_C64) return 8;
  if (dt == AULE_DT_F32 || dt == AULE_DT_I32 || dt == AULE_DT_RAW4 || dt == AULE_DT_C32) return 4;
  if (dt == AULE_DT_F16 || dt == AULE_DT_BF16 || dt == AULE_DT_I16 || dt == AULE_DT_RAW2) return 2;
  return dt == AULE_DT_RAW16 || dt == AULE_DT_C128 ? 16 : 1;
}

#ifdef C_dvec2
#define VEC_WORDS (4 * VEC_ELEMS)
#else
#define VEC_WORDS (2 * VEC_ELEMS)
#endif
struct Words {
  uint w[VEC_WORDS];
};

Words load_words(uint64_t address, int bytes) {
  Words r;
  if (bytes == 4) {
    r.w[0] = U32Ref(address).v;
  } else if (bytes == 8) {
    uvec2 t = unpackUint2x32(U64Ref(address).v);
    r.w[0] = t.x;
    r.w[1] = t.y;
  } else {
    [[unroll]] for (int i = 0; i < VEC_WORDS / 4; ++i) {
      if (i * 16 < bytes) {
        u64vec2 v = U64x2Ref(address + uint64_t(i * 16)).v;
        uvec2 lo = unpackUint2x32(v.x), hi = unpackUint2x32(v.y);
        r.w[4 * i] = lo.x;
        r.w[4 * i + 1] = lo.y;
        r.w[4 * i + 2] = hi.x;
        r.w[4 * i + 3] = hi.y;
      }
    }
  }
  return r;
}

void store_words(uint64_t address, int bytes, Words r) {
  if (bytes == 4) {
    U32Ref(address).v = r.w[0];
  } else if (bytes == 8) {
    U64Ref(address).v = packUint2x32(uvec2(r.w[0], r.w[1]));
  } else {
    [[unroll]] for (int i = 0; i < VEC_WORDS / 4; ++i) {
      if (i * 16 < bytes)
        U64x2Ref(address + uint64_t(i * 16)).v =
            u64vec2(packUint2x32(uvec2(r.w[4 * i], r.w[4 * i + 1])),
                packUint2x32(uvec2(r.w[4 * i + 2], r.w[4 * i + 3])));
    }
  }
}

// Element i (a constant after unrolling) of loaded words.
int unpack_int(Words r, int i, int dt) {
  if (dt == AULE_DT_I32) return int(r.w[i]);
  if (dt == AULE_DT_I16) return bitfieldExtract(int(r.w[i / 2]), (i & 1) * 16, 16);
  if (dt == AULE_DT_I8) return bitfieldExtract(int(r.w[i / 4]), (i & 3) * 8, 8);
  uint byte = bitfieldExtract(r.w[i / 4], (i & 3) * 8, 8);
  return dt == AULE_DT_BOOL ? (byte != 0u ? 1 : 0) : int(byte);
}
uint64_t unpack_64(Words r, int i) { return packUint2x32(uvec2(r.w[2 * i], r.w[2 * i + 1])); }
float unpack_float(Words r, int i, int dt) {
  if (dt == AULE_DT_F32) return uintBitsToFloat(r.w[i]);
  if (dt == AULE_DT_F16) return unpackHalf2x16(r.w[i / 2])[i & 1];
  if (dt == AULE_DT_BF16) return uintBitsToFloat((i & 1) == 0 ? r.w[i / 2] << 16 : r.w[i / 2] & 0xffff0000u);
  if (dt == AULE_DT_I64) return float(int64_t(unpack_64(r, i)));
  return float(unpack_int(r, i, dt));
}
int64_t unpack_int64(Words r, int i, int dt) {
  if (dt == AULE_DT_I64) return int64_t(unpack_64(r, i));
  if (dt == AULE_DT_F32 || dt == AULE_DT_F16 || dt == AULE_DT_BF16) return int64_t(unpack_float(r, i, dt));
  return int64_t(unpack_int(r, i, dt));
}

void put_bits(inout Words r, int i, int bytes, uint bits) {
  if (bytes == 4) {
    r.w[i] = bits;
  } else if (bytes == 2) {
    r.w[i / 2] = (i & 1) == 0 ? bits & 0xffffu : r.w[i / 2] | bits << 16;
  } else {
    r.w[i / 4] = (i & 3) == 0 ? bits & 0xffu : r.w[i / 4] | (bits & 0xffu) << ((i & 3) * 8);
  }
}
void put_64(inout Words r, int i, uint64_t bits) {
  uvec2 t = unpackUint2x32(bits);
  r.w[2 * i] = t.x;
  r.w[2 * i + 1] = t.y;
}
// Call with i = 0, 1, ... in order: the first element of a word clears it.
void pack_int64(inout Words r, int i, int dt, int64_t x) {
  if (dt == AULE_DT_I64) put_64(r, i, uint64_t(x));
  else if (dt == AULE_DT_BOOL) put_bits(r, i, 1, x != int64_t(0) ? 1u : 0u);
  else if (dt == AULE_DT_F32) put_bits(r, i, 4, floatBitsToUint(float(x)));
  else if (dt == AULE_DT_F16) put_bits(r, i, 2, float_to_f16(float(x)));
  else if (dt == AULE_DT_BF16) put_bits(r, i, 2, float_to_bf16(float(x)));
  else put_bits(r, i, dtype_bytes(dt), uint(x));
}
void pack_int(inout Words r, int i, int dt, int x) {
  if (dt == AULE_DT_BOOL) put_bits(r, i, 1, x != 0 ? 1u : 0u);
  else if (dt == AULE_DT_I32 || dt == AULE_DT_I16 || dt == AULE_DT_I8 || dt == AULE_DT_U8) put_bits(r, i,
      dtype_bytes(dt), uint(x));
  else pack_int64(r, i, dt, int64_t(x));
}
void pack_float(inout Words r, int i, int dt, float x) {
  if (dt == AULE_DT_F32) put_bits(r, i, 4, floatBitsToUint(x));
  else if (dt == AULE_DT_F16) put_bits(r, i, 2, float_to_f16(x));
  else if (dt == AULE_DT_BF16) put_bits(r, i, 2, float_to_bf16(x));
  else if (dt == AULE_DT_BOOL) put_bits(r, i, 1, x != 0.0 ? 1u : 0u);
  else pack_int64(r, i, dt, int64_t(x));
}

#ifdef AULE_DOUBLE
double unpack_double(Words r, int i, int dt) {
  if (dt == AULE_DT_F64) return packDouble2x32(uvec2(r.w[2 * i], r.w[2 * i + 1]));
  if (is_integer_dtype(dt)) return double(unpack_int64(r, i, dt));
  return double(unpack_float(r, i, dt));
}
void pack_double(inout Words r, int i, int dt, double x) {
  if (dt == AULE_DT_F64) {
    uvec2 t = unpackDouble2x32(x);
    r.w[2 * i] = t.x;
    r.w[2 * i + 1] = t.y;
  } else if (dt == AULE_DT_BOOL) {
    put_bits(r, i, 1, x != 0.0lf ? 1u : 0u);
  } else if (is_integer_dtype(dt)) {
    pack_int64(r, i, dt, int64_t(x));
  } else {
    pack_float(r, i, dt, float(x));
  }
}
#endif
#endif

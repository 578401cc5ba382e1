// Loads and stores of any storage dtype at `base + index * size`, converted from and to the arithmetic type.
// `dt` is a specialization constant (AULE_DT_*), so that only one branch survives in the pipeline.
// float16 and bfloat16 are storage; arithmetic is float32. bfloat16 is rounded to nearest even.
#ifndef AULE_DTYPE_GLSL
#define AULE_DTYPE_GLSL
#include "dtype_codes.h"

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer F32Ref { float v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer F16Ref { float16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer U16Ref { uint16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer I16Ref { int16_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer I8Ref { int8_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer U8Ref { uint8_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer I32Ref { int v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer U32Ref { uint v; };
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer I64Ref { int64_t v; };
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer U32x2Ref { uvec2 v; };  // 8-byte bits, any device
layout(buffer_reference, scalar, buffer_reference_align = 4) buffer U32x4Ref { uvec4 v; };
layout(buffer_reference, scalar, buffer_reference_align = 16) buffer F32x4Ref { vec4 v; };

bool is_integer_dtype(int dt) { return dt >= AULE_DT_I8 && dt <= AULE_DT_BOOL; }

float bf16_to_float(uint bits) { return uintBitsToFloat(bits << 16); }
uint float_to_bf16(float x) {
  const uint u = floatBitsToUint(x);
  const bool is_number = (u & 0x7fffffffu) <= 0x7f800000u;  // NaN plus the half step could be an infinity or 0
  return mix(0x7fc00000u, u + (0x7fffu + bitfieldExtract(u, 16, 1)), is_number) >> 16;
}

// float64 arithmetic exists only in variants with the axis value C=double or C=dvec2, which have
// `#pragma aule feature float64 if C=double`.
#if (defined(C_double) || defined(C_dvec2)) && !defined(AULE_DOUBLE)
#define AULE_DOUBLE
#endif
#ifdef AULE_DOUBLE
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer F64Ref { double v; };
#endif

int64_t load_int64(uint64_t base, uint64_t i, int dt) {
  switch (dt) {
    case AULE_DT_I64: return I64Ref(base + i * 8).v;
    case AULE_DT_I32: return int64_t(I32Ref(base + i * 4).v);
    case AULE_DT_I16: return int64_t(int(I16Ref(base + i * 2).v));
    case AULE_DT_I8: return int64_t(int(I8Ref(base + i).v));
    case AULE_DT_U8: return int64_t(uint(U8Ref(base + i).v));
    case AULE_DT_BOOL: return int64_t(uint(U8Ref(base + i).v) != 0u ? 1 : 0);
    case AULE_DT_F32: return int64_t(F32Ref(base + i * 4).v);
    case AULE_DT_F16: return int64_t(float(F16Ref(base + i * 2).v));
    case AULE_DT_BF16: return int64_t(bf16_to_float(uint(U16Ref(base + i * 2).v)));
  }
  return int64_t(0);
}

int load_int(uint64_t base, uint64_t i, int dt) {
  if (dt == AULE_DT_I32) return I32Ref(base + i * 4).v;
  if (dt == AULE_DT_I16) return int(I16Ref(base + i * 2).v);
  if (dt == AULE_DT_I8) return int(I8Ref(base + i).v);
  if (dt == AULE_DT_U8) return int(uint(U8Ref(base + i).v));
  if (dt == AULE_DT_BOOL) return uint(U8Ref(base + i).v) != 0u ? 1 : 0;
  return int(load_int64(base, i, dt));
}

float load_float(uint64_t base, uint64_t i, int dt) {
  switch (dt) {
    case AULE_DT_F32: return F32Ref(base + i * 4).v;
    case AULE_DT_F16: return float(F16Ref(base + i * 2).v);
    case AULE_DT_BF16: return bf16_to_float(uint(U16Ref(base + i * 2).v));
#ifdef AULE_DOUBLE
    case AULE_DT_F64: return float(F64Ref(base + i * 8).v);
#endif
    case AULE_DT_I64: return float(I64Ref(base + i * 8).v);
    default: return float(load_int(base, i, dt));
  }
}

void store_int64(uint64_t base, uint64_t i, int dt, int64_t x) {
  switch (dt) {
    case AULE_DT_I64: I64Ref(base + i * 8).v = x; break;
    case AULE_DT_I32: I32Ref(base + i * 4).v = int(x); break;
    case AULE_DT_I16: I16Ref(base + i * 2).v = int16_t(int(x)); break;
    case AULE_DT_I8: I8Ref(base + i).v = int8_t(int(x)); break;
    case AULE_DT_U8: U8Ref(base + i).v = uint8_t(uint(x)); break;
    case AULE_DT_BOOL: U8Ref(base + i).v = uint8_t(x != int64_t(0) ? 1u : 0u); break;
    case AULE_DT_F32: F32Ref(base + i * 4).v = float(x); break;
    case AULE_DT_F16: F16Ref(base + i * 2).v = float16_t(float(x)); break;
    case AULE_DT_BF16: U16Ref(base + i * 2).v = uint16_t(float_to_bf16(float(x))); break;
  }
}

void store_int(uint64_t base, uint64_t i, int dt, int x) {
  switch (dt) {
    case AULE_DT_I32: I32Ref(base + i * 4).v = x; break;
    case AULE_DT_I16: I16Ref(base + i * 2).v = int16_t(x); break;
    case AULE_DT_I8: I8Ref(base + i).v = int8_t(x); break;
    case AULE_DT_U8: U8Ref(base + i).v = uint8_t(uint(x)); break;
    case AULE_DT_BOOL: U8Ref(base + i).v = uint8_t(x != 0 ? 1u : 0u); break;
    default: store_int64(base, i, dt, int64_t(x));
  }
}

void store_float(uint64_t base, uint64_t i, int dt, float x) {
  switch (dt) {
    case AULE_DT_F32: F32Ref(base + i * 4).v = x; break;
    case AULE_DT_F16: F16Ref(base + i * 2).v = float16_t(x); break;
    case AULE_DT_BF16: U16Ref(base + i * 2).v = uint16_t(float_to_bf16(x)); break;
    case AULE_DT_BOOL: U8Ref(base + i).v = uint8_t(x != 0.0 ? 1u : 0u); break;
    case AULE_DT_I64: I64Ref(base + i * 8).v = int64_t(x); break;
    default: store_int64(base, i, dt, int64_t(x));
  }
}

#ifdef AULE_DOUBLE
double load_double(uint64_t base, uint64_t i, int dt) {
  if (dt == AULE_DT_F64) return F64Ref(base + i * 8).v;
  if (is_integer_dtype(dt)) return double(load_int64(base, i, dt));
  return double(load_float(base, i, dt));
}
void store_double(uint64_t base, uint64_t i, int dt, double x) {
  if (dt == AULE_DT_F64) F64Ref(base + i * 8).v = x;
  else if (dt == AULE_DT_BOOL) U8Ref(base + i).v = uint8_t(x != 0.0lf ? 1u : 0u);
  else if (is_integer_dtype(dt)) store_int64(base, i, dt, int64_t(x));
  else store_float(base, i, dt, float(x));
}
#endif

// Bits of any dtype by element size: copies, gathers, concatenations.
uvec4 load_raw(uint64_t base, uint64_t i, int dt) {
  switch (dt) {
    case AULE_DT_RAW1: return uvec4(uint(U8Ref(base + i).v), 0, 0, 0);
    case AULE_DT_RAW2: return uvec4(uint(U16Ref(base + i * 2).v), 0, 0, 0);
    case AULE_DT_RAW4: return uvec4(U32Ref(base + i * 4).v, 0, 0, 0);
    case AULE_DT_RAW8: return uvec4(U32x2Ref(base + i * 8).v, 0, 0);
    default: return U32x4Ref(base + i * 16).v;
  }
}
void store_raw(uint64_t base, uint64_t i, int dt, uvec4 x) {
  switch (dt) {
    case AULE_DT_RAW1: U8Ref(base + i).v = uint8_t(x.x); break;
    case AULE_DT_RAW2: U16Ref(base + i * 2).v = uint16_t(x.x); break;
    case AULE_DT_RAW4: U32Ref(base + i * 4).v = x.x; break;
    case AULE_DT_RAW8: U32x2Ref(base + i * 8).v = x.xy; break;
    default: U32x4Ref(base + i * 16).v = x; break;
  }
}
#endif

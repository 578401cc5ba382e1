// The arithmetic type of a variant (axis `C float double int64_t`), its dtype, loads and stores, and numbers of it that
// Params has as 64 bits (`real_bits` in ops/tensor/floating.h). Include after dtype.glsl.
#ifndef AULE_REAL_GLSL
#define AULE_REAL_GLSL
#ifdef C_double
#define REAL double
#define REAL_OF_BITS(bits) packDouble2x32(unpackUint2x32(bits))
#define REAL_DTYPE AULE_DT_F64
#define LOAD load_double
#define STORE store_double
#elif defined(C_int64_t)
#define REAL int64_t
#define REAL_OF_BITS(bits) int64_t(bits)
#define REAL_DTYPE AULE_DT_I64
#define LOAD load_int64
#define STORE store_int64
#else
#define REAL float
#define REAL_OF_BITS(bits) uintBitsToFloat(uint(bits))
#define REAL_DTYPE AULE_DT_F32
#define LOAD load_float
#define STORE store_float
#endif
#endif

// The arithmetic type of a variant (axis `C float double`), its dtype, loads and stores. Include after dtype.glsl.
#ifndef AULE_REAL_GLSL
#define AULE_REAL_GLSL
#ifdef C_double
#define REAL double
#define REAL_DTYPE AULE_DT_F64
#define LOAD load_double
#define STORE store_double
#else
#define REAL float
#define REAL_DTYPE AULE_DT_F32
#define LOAD load_float
#define STORE store_float
#endif
#endif

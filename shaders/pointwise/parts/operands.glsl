// Specialization constants of a pointwise kernel after OP: storage dtype and access mode of out and of each operand.
// The file that includes this explains the values of MODE.
layout(constant_id = 1) const int OUT_DTYPE = 0;
layout(constant_id = 2) const int OUT_MODE = 0;
layout(constant_id = 3) const int A_DTYPE = 0;
layout(constant_id = 4) const int A_MODE = 0;
layout(constant_id = 5) const int B_DTYPE = 0;
layout(constant_id = 6) const int B_MODE = 0;
layout(constant_id = 7) const int C_DTYPE = 0;
layout(constant_id = 8) const int C_MODE = 0;

// Words of the params for numbers, by value and s0, s1, s2 (of complex numbers s0 alone), and their values.
#if defined(C_vec2) || defined(C_dvec2)
#define VALUE_WORDS 2 * ARITY
#define SCALAR_WORDS 2
#define VALUE(k) scalar_T(p.value[2 * (k)], p.value[2 * (k) + 1])
#define LOAD_SCALARS s0 = scalar_T(p.scalar[0], p.scalar[1]);
#else
#define VALUE_WORDS ARITY
#define SCALAR_WORDS 3
#define VALUE(k) scalar_T(p.value[k])
#define LOAD_SCALARS \
  s0 = scalar_T(p.scalar[0]); \
  s1 = scalar_T(p.scalar[1]); \
  s2 = scalar_T(p.scalar[2]);
#endif

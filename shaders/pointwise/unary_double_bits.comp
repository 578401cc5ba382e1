// out = op(a) in float64 by integer code, for devices without float64; op is an entry of double_bits_ops.def. Operands
// of any strides, see strided.glsl.
#pragma aule params ring
#define C_double_bits
#define VEC_ELEMS 4
#define ARITY 1
#include "common/dtype.glsl"
#include "common/vec8.glsl"
#include "common/arithmetic.glsl"
#include "pointwise/parts/double_bits_entries.glsl"
#define APPLY(i) apply(a[i])
#include "pointwise/parts/strided.glsl"

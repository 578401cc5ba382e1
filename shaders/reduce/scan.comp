#pragma aule axis C float double int64_t vec2 dvec2
#pragma aule axis STATE value arg lse
#pragma aule axis GROUP 0 1
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
#pragma aule skip STATE=lse C=int64_t
#pragma aule skip STATE=arg C=vec2
#pragma aule skip STATE=arg C=dvec2
// y[k] = x[0] op ... op x[k] along one dimension of x[outer, n, inner] (contiguous): cumulative sum, product, maximum
// and minimum with their last index, and log-sum-exp.
//
// If there are few rows, a row is split into chunks.
//   PASS 0   one chunk: input to output             PASS 2   totals to exclusive prefixes, in place
//   PASS 1   total of each chunk to scratch         PASS 3   each chunk, from its prefix, to output
// scratch is [chunk][row]. PASS 2 has one invocation per row.
// GROUP 0: an invocation per chunk, neighbours along rows. Coalesced if inner > 1; the fastest form on lavapipe.
// GROUP 1 (GPU, inner 1): a workgroup per chunk, in tiles of LOCAL elements that are scanned in shared memory.
#include "common/dtype.glsl"
#if defined(C_vec2) || defined(C_dvec2)
#define COMPLEX
#endif
#if defined(COMPLEX) && defined(STATE_lse)
#include "common/arithmetic.glsl"
#include "pointwise/functions/complex.glsl"
#include "pointwise/functions/complex_special.glsl"
#else
#include "common/float_bits.glsl"
#ifdef COMPLEX
#include "common/complex.glsl"
#endif
#endif

#define SCAN_OP(code, name) const int OP_##name = code;
#include "reduce/scan_ops.def"
layout(constant_id = 0) const int IN_DTYPE = 0;
layout(constant_id = 1) const int OUT_DTYPE = 0;
layout(constant_id = 2) const int OP = 0;
layout(constant_id = 3) const int PASS = 0;
layout(constant_id = 4) const int LOCAL = 8;
layout(local_size_x_id = 4) in;
#include "common/indexing.glsl"

struct Params {
  uint64_t in_, out_, out2, scratch;  // out2: indices of STATE arg
  uint64_t rows, n, inner, chunk, chunks;
};
#include "common/params.glsl"

#if defined(C_float)
#define C_BYTES 4
#elif defined(C_dvec2)
#define C_BYTES 16
#else
#define C_BYTES 8
#endif
#if defined(STATE_value) || defined(COMPLEX)
struct State { C v; };
#define STATE_BYTES C_BYTES
#elif defined(STATE_arg)
struct State { int64_t i; C v; };
#define STATE_BYTES 16
#else
struct State { C m, s; };
#define STATE_BYTES (2 * C_BYTES)
#endif
#if defined(STATE_arg) || !defined(C_float)
#define STATE_ALIGN 8
#else
#define STATE_ALIGN 4
#endif
layout(buffer_reference, scalar, buffer_reference_align = STATE_ALIGN) buffer StateRef { State s; };

C load(uint64_t i) {
#if defined(C_int64_t)
  return load_int64(p.in_, i, IN_DTYPE);
#elif defined(COMPLEX)
  return load_complex(p.in_, i, IN_DTYPE);
#elif defined(C_double)
  return load_double(p.in_, i, IN_DTYPE);
#else
  return load_float(p.in_, i, IN_DTYPE);
#endif
}
void store_value(uint64_t i, C x) {
#if defined(C_int64_t)
  store_int64(p.out_, i, OUT_DTYPE, x);
#elif defined(COMPLEX)
  store_complex(p.out_, i, OUT_DTYPE, x);
#elif defined(C_double)
  store_double(p.out_, i, OUT_DTYPE, x);
#else
  store_float(p.out_, i, OUT_DTYPE, x);
#endif
}

// combine(a, b): the elements of a come before those of b.
#if defined(COMPLEX) && defined(STATE_lse)
// The angle adds up as the CPU's does: a sum of principal logarithms beside the largest term.
State begin() { return State(C(-R_INF, 0)); }
State element(C x, int64_t i) { return State(x); }
State combine(State a, State b) { return State(c_logaddexp(b.v, a.v)); }
void store(uint64_t i, State s) { store_value(i, s.v); }
#elif defined(COMPLEX)
State begin() { return State(C(OP == OP_prod ? 1 : 0, 0)); }
State element(C x, int64_t i) { return State(x); }
State combine(State a, State b) { return State(OP == OP_prod ? c_mul(a.v, b.v) : a.v + b.v); }
void store(uint64_t i, State s) { store_value(i, s.v); }
#elif defined(STATE_value)
State begin() { return State(OP == OP_prod ? C(1) : C(0)); }
State element(C x, int64_t i) { return State(x); }
State combine(State a, State b) { return State(OP == OP_prod ? a.v * b.v : a.v + b.v); }
void store(uint64_t i, State s) { store_value(i, s.v); }
#elif defined(STATE_arg)
State begin() { return State(int64_t(-1), C(0)); }
State element(C x, int64_t i) { return State(i, x); }
// Of equal values the later index wins. A NaN is replaced by a later NaN only.
State combine(State a, State b) {
  if (b.i < int64_t(0)) return a;
  if (a.i < int64_t(0) || is_nan(b.v)) return b;
  if (is_nan(a.v)) return a;
  return (OP == OP_max ? b.v >= a.v : b.v <= a.v) ? b : a;
}
void store(uint64_t i, State s) {
  store_value(i, s.v);
  I64Ref(p.out2 + i * 8).v = s.i;
}
#else
#ifdef C_double
#define LOWEST packDouble2x32(uvec2(0u, 0xfff00000u))
#else
#define LOWEST (-AULE_INF)
#endif
State begin() { return State(LOWEST, C(0)); }
State element(C x, int64_t i) { return State(x, C(1)); }
C weight(C x, C m) { return x == m ? C(1) : exp(x - m); }
State combine(State a, State b) {
  if (a.s == C(0)) return b;
  if (b.s == C(0)) return a;
  C m = is_nan(a.m) ? a.m : is_nan(b.m) || b.m > a.m ? b.m : a.m;
  return State(m, a.s * weight(a.m, m) + b.s * weight(b.m, m));
}
void store(uint64_t i, State s) { store_value(i, s.s == C(1) ? s.m : s.m + log(s.s)); }
#endif

uint64_t scratch_at(uint64_t chunk, uint64_t row) { return p.scratch + (chunk * p.rows + row) * STATE_BYTES; }

#if GROUP
shared State tile[LOCAL];
#endif

void main() {
#if GROUP
  uint64_t work = uint64_t(linear_group());
#else
  uint64_t work = linear_invocation();
#endif
  uint64_t c = work / p.rows, row = work - c * p.rows;
  if (PASS == 2 ? work >= p.rows : c >= p.chunks) return;  // GROUP 1: the whole workgroup leaves
  if (PASS == 2) {
    State s = begin();
    for (uint64_t k = 0; k < p.chunks; ++k) {
      State t = StateRef(scratch_at(k, row)).s;
      StateRef(scratch_at(k, row)).s = s;
      s = combine(s, t);
    }
    return;
  }
  uint64_t outer = row / p.inner, start = outer * p.n * p.inner + (row - outer * p.inner);
  uint64_t first = c * p.chunk, last = lesser(first + p.chunk, p.n);
  State s = begin();
  if (PASS == 3) s = StateRef(scratch_at(c, row)).s;
#if GROUP
  uint lane = gl_LocalInvocationID.x;
  for (uint64_t base = first; base < last; base += LOCAL) {
    uint64_t k = base + lane;
    State t = begin();
    if (k < last) t = element(load(start + k * p.inner), int64_t(k));
    tile[lane] = t;
    barrier();  // the tile is loaded
    for (uint d = 1; d < LOCAL; d *= 2) {
      State before = begin();
      if (lane >= d) before = tile[lane - d];
      barrier();  // all read before any writes
      t = combine(before, t);
      tile[lane] = t;
      barrier();  // this level done
    }
    if (PASS != 1 && k < last) store(start + k * p.inner, combine(s, t));
    s = combine(s, tile[LOCAL - 1]);
    barrier();  // the total is read before the next tile is written
  }
  if (PASS == 1 && lane == 0u) StateRef(scratch_at(c, row)).s = s;
#else
  for (uint64_t k = first; k < last; ++k) {
    s = combine(s, element(load(start + k * p.inner), int64_t(k)));
    if (PASS != 1) store(start + k * p.inner, s);
  }
  if (PASS == 1) StateRef(scratch_at(c, row)).s = s;
#endif
}

#pragma aule axis C float double int64_t vec2 dvec2
#pragma aule axis STATE value arg moments lse minmax
#pragma aule axis GROUP 0 1
#pragma aule feature float64 if C=double
#pragma aule feature float64 if C=dvec2
#pragma aule skip STATE=moments C=int64_t
#pragma aule skip STATE=lse C=int64_t
#pragma aule skip STATE=arg C=vec2
#pragma aule skip STATE=arg C=dvec2
#pragma aule skip STATE=moments C=vec2
#pragma aule skip STATE=moments C=dvec2
#pragma aule skip STATE=lse C=vec2
#pragma aule skip STATE=lse C=dvec2
#pragma aule skip STATE=minmax C=vec2
#pragma aule skip STATE=minmax C=dvec2
// out[o] = finish(combine over r of x[o, r]): every reduction over a set of dimensions, merged by the host to at most 3
// kept and 2 reduced ones, fastest first. C is the arithmetic type, of complex numbers a pair. STATE is the state:
//   value   a value               moments   count, mean and squared deviations (Chan)    minmax   both extremes
//   arg     value and index       lse       maximum and scaled sum
// GROUP 0: one invocation per (output, chunk of r), neighbours along the kept dimension. Coalesced for column
//   reductions; the fastest form on lavapipe, because it has no barrier.
// GROUP 1: one workgroup per (output, chunk of r), neighbours along r, then a tree in shared memory. For row and full
//   reductions on GPUs.
// PASS 0: input to output. 1: input to states in scratch, [chunk][output]. 2: states to output. 3: states to fewer.
// Four accumulators are added to the total every BLOCK elements, so a sum's error grows with BLOCK / 4 plus the number
// of blocks instead of the length.
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
#if defined(C_vec2) || defined(C_dvec2)
#define COMPLEX
#include "common/complex.glsl"
#endif
#define REDUCE_OP(code, name) const int OP_##name = code;
#include "reduce/reduce_ops.def"

layout(constant_id = 0) const int IN_DTYPE = 0;
layout(constant_id = 1) const int OUT_DTYPE = 0;
layout(constant_id = 2) const int OP = 0;
layout(constant_id = 3) const int PASS = 0;
layout(constant_id = 4) const bool NEEDS_U64 = false;  // sizes past 2^32: index arithmetic has 64 bits
layout(constant_id = 5) const bool FINDS_MINIMUM = false;  // STATE arg: else the maximum
layout(constant_id = 6) const int LOCAL = 8;
layout(local_size_x_id = 6) in;
#include "common/indexing.glsl"

struct Params {
  uint64_t in_, out_, out2;      // out2: indices (arg), mean (moments, may be 0), maximum (minmax)
  // chunk: reduced elements (PASS 3: states) per invocation or workgroup; PASS 0, 2: the true count
  uint64_t n_out, n_red, chunk;
  uint64_t in_stride[3], red_stride[2], out_stride[3];  // in elements
  uint kept_size[2], red_size;   // all but the slowest
  float arg;                     // p of the norm; correction of var; eps of invstd
};
#include "common/params.glsl"

const uint BLOCK = 512;

#if defined(C_float)
#define C_BYTES 4
#elif defined(C_dvec2)
#define C_BYTES 16
#else
#define C_BYTES 8
#endif
#if defined(STATE_value)
struct State { C v; };
#define STATE_BYTES C_BYTES
#elif defined(STATE_arg)
struct State { uint64_t i; C v; };
#define STATE_BYTES 16
#elif defined(STATE_moments)
#define STATE_BYTES (3 * C_BYTES)
#else
struct State { C a, b; };  // lse: maximum, sum of exp(x - maximum); minmax: minimum, maximum
#define STATE_BYTES (2 * C_BYTES)
#endif
#if defined(STATE_arg) || !defined(C_float)
#define STATE_ALIGN 8
#else
#define STATE_ALIGN 4
#endif
#if defined(C_int64_t)
C lowest() { return int64_t(1) << 63; }
C highest() { return ~(int64_t(1) << 63); }
#elif defined(COMPLEX)  // has no order
#elif defined(C_double)
C lowest() { return packDouble2x32(uvec2(0u, 0xfff00000u)); }
C highest() { return packDouble2x32(uvec2(0u, 0x7ff00000u)); }
#else
C lowest() { return -AULE_INF; }
C highest() { return AULE_INF; }
#endif

bool nonzero(uint64_t i) {
  switch (IN_DTYPE) {
    case AULE_DT_F32: return (U32Ref(p.in_ + i * 4).v & 0x7fffffffu) != 0u;
    case AULE_DT_F16:
    case AULE_DT_BF16: return (uint(U16Ref(p.in_ + i * 2).v) & 0x7fffu) != 0u;
    case AULE_DT_F64: {
      uvec2 u = U32x2Ref(p.in_ + i * 8).v;
      return ((u.y & 0x7fffffffu) | u.x) != 0u;
    }
    case AULE_DT_I64: return I64Ref(p.in_ + i * 8).v != int64_t(0);
    default: return load_int(p.in_, i, IN_DTYPE) != 0;
  }
}

C load(uint64_t i) {
#if defined(C_int64_t)
  if (OP == OP_any || OP == OP_all || OP == OP_count) return nonzero(i) ? int64_t(1) : int64_t(0);
  return load_int64(p.in_, i, IN_DTYPE);
#elif defined(COMPLEX)
  return load_complex(p.in_, i, IN_DTYPE);
#elif defined(C_double)
  return load_double(p.in_, i, IN_DTYPE);
#else
  return load_float(p.in_, i, IN_DTYPE);
#endif
}

void store(uint64_t base, uint64_t i, C x) {
#if defined(C_int64_t)
  store_int64(base, i, OUT_DTYPE, x);
#elif defined(COMPLEX)
  store_complex(base, i, OUT_DTYPE, x);
#elif defined(C_double)
  store_double(base, i, OUT_DTYPE, x);
#else
  store_float(base, i, OUT_DTYPE, x);
#endif
}

#ifndef COMPLEX
C larger(C a, C b) { return is_nan(a) ? a : is_nan(b) || b > a ? b : a; }
C smaller(C a, C b) { return is_nan(a) ? a : is_nan(b) || b < a ? b : a; }
#endif

uint64_t quotient(uint64_t a, uint64_t b) { return NEEDS_U64 ? a / b : uint64_t(uint(a) / uint(b)); }

uint64_t kept_offset(uint64_t o, uint64_t stride[3]) {
  uint64_t q0 = quotient(o, uint64_t(p.kept_size[0])), q1 = quotient(q0, uint64_t(p.kept_size[1]));
  return (o - q0 * p.kept_size[0]) * stride[0] + (q0 - q1 * p.kept_size[1]) * stride[1] + q1 * stride[2];
}
uint64_t red_offset(uint64_t r) {
  if (p.red_size == 0u) return r * p.red_stride[0];  // one reduced dimension
  uint64_t q = quotient(r, uint64_t(p.red_size));
  return (r - q * p.red_size) * p.red_stride[0] + q * p.red_stride[1];
}

// ---- the five kinds of state: begin, take one element, combine two states, store the result ----
#if defined(COMPLEX)  // sums, means and products
State begin() { return State(C(OP == OP_prod ? 1 : 0, 0)); }
State combine(State a, State b) { return State(OP == OP_prod ? c_mul(a.v, b.v) : a.v + b.v); }
void take(inout State s, C x, uint64_t r) { s = combine(s, State(x)); }
void finish(State s, uint64_t o) { store(p.out_, o, OP == OP_mean ? s.v / C(float(p.chunk)) : s.v); }
#elif defined(STATE_value)
State begin() {
  if (OP == OP_prod) return State(C(1));
  if (OP == OP_max) return State(lowest());
  if (OP == OP_min || OP == OP_norm_min) return State(highest());
  if (OP == OP_all) return State(C(1));
  return State(C(0));
}
C fold(C a, C b) {
  switch (OP) {
    case OP_prod: return a * b;
    case OP_max:
    case OP_norm_max: return larger(a, b);
    case OP_min:
    case OP_norm_min: return smaller(a, b);
    case OP_any: return b > a ? b : a;
    case OP_all: return b < a ? b : a;
    default: return a + b;
  }
}
State combine(State a, State b) { return State(fold(a.v, b.v)); }
void take(inout State s, C x, uint64_t r) {
  switch (OP) {
    case OP_nansum: if (is_nan(x)) x = C(0); break;
    case OP_norm1:
    case OP_norm_max:
    case OP_norm_min: x = abs(x); break;
    case OP_norm2: x = x * x; break;
#ifndef C_int64_t
    case OP_norm_p: x = pow(abs(x), C(p.arg)); break;
#endif
  }
  s.v = fold(s.v, x);
}
void finish(State s, uint64_t o) {
  C x = s.v;
#ifndef C_int64_t
  if (OP == OP_mean) x = x / C(p.chunk);
  if (OP == OP_norm2) x = sqrt(x);
  if (OP == OP_norm_p) x = pow(x, C(1) / C(p.arg));
#endif
  store(p.out_, o, x);
}
#elif defined(STATE_arg)
const uint64_t NOTHING = ~uint64_t(0);
State begin() { return State(NOTHING, C(0)); }
// A NaN is better than every number. Of equal values the first index wins.
bool better(C x, C y) { return is_nan(x) ? !is_nan(y) : !is_nan(y) && (FINDS_MINIMUM ? x < y : x > y); }
State combine(State a, State b) {
  if (b.i == NOTHING) return a;
  if (a.i == NOTHING || better(b.v, a.v)) return b;
  return b.i < a.i && !better(a.v, b.v) ? b : a;
}
void take(inout State s, C x, uint64_t r) {
  if (s.i == NOTHING || better(x, s.v)) s = State(r, x);
}
void finish(State s, uint64_t o) {
  if (p.out_ != uint64_t(0)) store(p.out_, o, s.v);
  I64Ref(p.out2 + o * 8).v = int64_t(s.i);
}
#elif defined(STATE_moments)
#include "reduce/moments.glsl"
#elif defined(STATE_lse)
State begin() { return State(lowest(), C(0)); }
C weight(C x, C m) { return x == m ? C(1) : exp(x - m); }  // equal infinities weigh 1
State combine(State a, State b) {
  C m = larger(a.a, b.a);
  return State(m, a.b * weight(a.a, m) + b.b * weight(b.a, m));
}
void take(inout State s, C x, uint64_t r) {
  C e = x == s.a ? C(1) : exp(-abs(x - s.a));
  if (is_nan(x) || x > s.a) s = State(x, s.b * e + C(1));
  else s.b += e;
}
void finish(State s, uint64_t o) { store(p.out_, o, p.n_red == uint64_t(0) ? lowest() : s.a + log(s.b)); }
#else
State begin() { return State(highest(), lowest()); }
State combine(State a, State b) { return State(smaller(a.a, b.a), larger(a.b, b.b)); }
void take(inout State s, C x, uint64_t r) { s = State(smaller(s.a, x), larger(s.b, x)); }
void finish(State s, uint64_t o) {
  store(p.out_, o, s.a);
  store(p.out2, o, s.b);
}
#endif
layout(buffer_reference, scalar, buffer_reference_align = STATE_ALIGN) buffer StateRef { State s; };

// Elements first, first + step, ... below last of the row that starts at element `base`.
State reduce_range(uint64_t o, uint64_t base, uint64_t first, uint64_t last, uint step) {
  State total = begin();
  if (PASS >= 2) {
    for (uint64_t r = first; r < last; r += step) total = combine(total,
        StateRef(p.in_ + (r * p.n_out + o) * STATE_BYTES).s);
    return total;
  }
  for (uint64_t r = first; r < last;) {
    uint n = uint(lesser(uint64_t(BLOCK), (last - r + step - 1) / step));
#ifdef STATE_moments
    total = combine(total, moments_of(base, r, n, step));
    r += uint64_t(n) * step;
#else
    State s0 = begin(), s1 = begin(), s2 = begin(), s3 = begin();
    uint k = 0;
    if (p.red_size == 0u) {  // no division: the usual case
      uint64_t at = base + r * p.red_stride[0], hop = step * p.red_stride[0];
      for (; k + 4 <= n; k += 4, r += 4 * step, at += 4 * hop) {
        C x0 = load(at), x1 = load(at + hop), x2 = load(at + 2 * hop), x3 = load(at + 3 * hop);
        take(s0, x0, r);
        take(s1, x1, r + step);
        take(s2, x2, r + 2 * step);
        take(s3, x3, r + 3 * step);
      }
    }
    for (; k < n; ++k, r += step) take(s0, load(base + red_offset(r)), r);
    total = combine(total, combine(combine(s0, s1), combine(s2, s3)));
#endif
  }
  return total;
}

#if GROUP
shared State tree[LOCAL];
#endif

void main() {
#if GROUP
  uint64_t work = uint64_t(linear_group());
#else
  uint64_t work = linear_invocation();
#endif
  uint64_t c = quotient(work, p.n_out), o = work - c * p.n_out;
  uint64_t first = c * p.chunk, last = lesser(first + p.chunk, p.n_red);
  bool inside = c == uint64_t(0) || first < p.n_red;
#if GROUP
  uint lane = gl_LocalInvocationID.x;
  // `inside` is the same for the whole workgroup. There is no early return before the barriers.
  State s = begin();
  if (inside) s = reduce_range(o, kept_offset(o, p.in_stride), first + lane, last, LOCAL);
  tree[lane] = s;
  barrier();  // all of tree written
  for (uint half_ = LOCAL / 2; half_ > 0u; half_ /= 2) {
    if (lane < half_) tree[lane] = combine(tree[lane], tree[lane + half_]);
    barrier();  // upper half read before the next step writes below it
  }
  if (!inside || lane != 0u) return;
  s = tree[0];
#else
  if (!inside) return;
  State s = reduce_range(o, kept_offset(o, p.in_stride), first, last, 1u);
#endif
  if (PASS == 1 || PASS == 3) StateRef(p.out_ + (c * p.n_out + o) * STATE_BYTES).s = s;
  else finish(s, kept_offset(o, p.out_stride));
}

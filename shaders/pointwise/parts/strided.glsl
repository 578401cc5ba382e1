// Operands of any strides over up to 8 dimensions, dimension 0 the fastest in out; strides in elements, 32 bits.
// One invocation computes VEC_ELEMS elements along dimension 0, which share the divisions.
// MODE of an operand: 0 strided, 1 packed along dimension 0, 2 by value in the params, 3 constant along dimension 0.
#include "pointwise/parts/operands.glsl"
struct Params {
  uint64_t out_;
  uint64_t in_[ARITY];
  uint64_t value[VALUE_WORDS];
  uint64_t scalar[SCALAR_WORDS];
  uint vecs;      // of VEC_ELEMS elements along dimension 0, times the other dimensions
  uint row_vecs;  // along dimension 0
  uint ndim;
  uint sizes[8];
  uint strides[8 * (ARITY + 1)];  // of out, then of each operand
};
#include "common/params.glsl"

layout(local_size_x = 64) in;
#include "common/indexing.glsl"

#ifdef ONE_BY_ONE
T load_one(int k, uint first, uint i, int dt, int mode) {
  return mode == 2 ? VALUE(k) : load_T(p.in_[k], uint64_t(first + i * p.strides[8 * (k + 1)]), dt);
}
#endif

T[VEC_ELEMS] load_operand(int k, uint first, uint count, int dt, int mode) {
  T x[VEC_ELEMS];
  uint64_t base = p.in_[k];
  if (mode == 2 || mode == 3) {
    T v = mode == 2 ? VALUE(k) : load_T(base, uint64_t(first), dt);
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) x[i] = v;
  } else if (mode == 1 && count == uint(VEC_ELEMS)) {
    Words w = load_words(base + uint64_t(first) * dtype_bytes(dt), VEC_ELEMS * dtype_bytes(dt));
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) x[i] = unpack_T(w, i, dt);
  } else {
    uint step = p.strides[8 * (k + 1)];
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) {
      x[i] = T(0);
      if (uint(i) < count) x[i] = load_T(base, uint64_t(first + uint(i) * step), dt);
    }
  }
  return x;
}

void main() {
  uint64_t linear = linear_invocation();
  if (linear >= uint64_t(p.vecs)) return;
  uint rest = uint(linear) / p.row_vecs;
  uint i0 = (uint(linear) - rest * p.row_vecs) * uint(VEC_ELEMS);
  uint count = min(uint(VEC_ELEMS), p.sizes[0] - i0);
  uint at[ARITY + 1];
  [[unroll]] for (int k = 0; k <= ARITY; ++k) at[k] = i0 * p.strides[8 * k];
  for (uint d = 1; d < p.ndim; ++d) {
    uint next = rest / p.sizes[d], i = rest - next * p.sizes[d];
    [[unroll]] for (int k = 0; k <= ARITY; ++k) at[k] += i * p.strides[8 * k + int(d)];
    rest = next;
  }
  LOAD_SCALARS
  uint out_step = p.strides[0];
#ifdef ONE_BY_ONE
  for (uint i = 0; i < count; ++i) {
    const T a = load_one(0, at[1], i, A_DTYPE, A_MODE);
#if ARITY > 1
    const T b = load_one(1, at[2], i, B_DTYPE, B_MODE);
    store_T(p.out_, uint64_t(at[0] + i * out_step), OUT_DTYPE, apply(a, b));
#else
    store_T(p.out_, uint64_t(at[0] + i * out_step), OUT_DTYPE, apply(a));
#endif
  }
#else
  T a[VEC_ELEMS] = load_operand(0, at[1], count, A_DTYPE, A_MODE);
#if ARITY > 1
  T b[VEC_ELEMS] = load_operand(1, at[2], count, B_DTYPE, B_MODE);
#endif
#if ARITY > 2
  T c[VEC_ELEMS] = load_operand(2, at[3], count, C_DTYPE, C_MODE);
#endif
  [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) a[i] = APPLY(i);
  if (OUT_MODE == 1 && count == uint(VEC_ELEMS)) {
    Words w;
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i) pack_T(w, i, OUT_DTYPE, a[i]);
    store_words(p.out_ + uint64_t(at[0]) * dtype_bytes(OUT_DTYPE), VEC_ELEMS * dtype_bytes(OUT_DTYPE), w);
  } else {
    [[unroll]] for (int i = 0; i < VEC_ELEMS; ++i)
      if (uint(i) < count) store_T(p.out_, uint64_t(at[0] + uint(i) * out_step), OUT_DTYPE, a[i]);
  }
#endif
}

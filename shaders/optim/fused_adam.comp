// Adam and AdamW over many dense tensors at once:
//   g = grad / grad_scale, negated if maximize;  Adam: g += wd * w,  AdamW: w -= lr * wd * w
//   m = lerp(m, g, 1 - b1);  v = lerp(v, g^2, 1 - b2);  amsgrad: vmax = max(vmax, v)
//   w -= lr / (1 - b1^step) * m / (sqrt(v or vmax) / sqrt(1 - b2^step) + eps)
// Nothing is written if found_inf is not 0. 1 - b^step is -expm1(step * log b), which is accurate at step 1, too.
// Memory bound, 7 accesses per element. VEC (GPUs, all addresses aligned): whole workgroups use 16-byte accesses, with
// all of an invocation's loads before its arithmetic. Else neighbouring invocations take neighbouring elements.
#pragma aule params ring
#pragma aule axis C float double
#pragma aule feature float64 if C=double
#include "common/dtype.glsl"
#include "common/real.glsl"
#include "common/half.glsl"
#include "common/float_bits.glsl"
#include "optim/expm1.glsl"
#include "common/multi_tensor.glsl"

struct Params {
  uint64_t param[TENSORS];
  uint64_t grad[TENSORS];
  uint64_t exp_avg[TENSORS];
  uint64_t exp_avg_sq[TENSORS];
  uint64_t max_exp_avg_sq[TENSORS];
  uint64_t state_step[TENSORS];
  uint64_t lr_address;     // 0: lr below
  uint64_t grad_scale;     // 0: none
  uint64_t found_inf;      // 0: none
  // Of REAL numbers:
  uint64_t lr;
  uint64_t log_beta1;
  uint64_t log_beta2;
  uint64_t one_minus_beta1;
  uint64_t one_minus_beta2;
  uint64_t weight_decay;
  uint64_t eps;
  uint elems[TENSORS];
  uint first_group[TENSORS];
  uint tensors;
};
#include "common/params.glsl"

layout(constant_id = 0) const int PARAM_DTYPE = 0;
layout(constant_id = 1) const int GRAD_DTYPE = 0;
layout(constant_id = 2) const int STATE_DTYPE = 0;
layout(constant_id = 3) const bool ADAMW = false;
layout(constant_id = 4) const bool AMSGRAD = false;
layout(constant_id = 5) const bool MAXIMIZE = false;
layout(constant_id = 6) const int LR_DTYPE = 0;
layout(constant_id = 7) const bool UNSCALE = false;
layout(constant_id = 8) const bool VEC = false;

#ifndef C_double
#include "optim/vec8.glsl"
#endif

REAL lr, step_size, correction2, scale;

// T: REAL or vec4.
#define DEFINE_STEP(T)                                                                  \
  void step_(inout T w, inout T g, inout T m, inout T v, inout T top) {                 \
    if (UNSCALE) g /= scale;                                                            \
    T d = MAXIMIZE ? -g : g;                                                            \
    if (ADAMW) w -= lr * REAL_OF_BITS(p.weight_decay) * w;                              \
    else d += REAL_OF_BITS(p.weight_decay) * w;                                         \
    m += REAL_OF_BITS(p.one_minus_beta1) * (d - m);                                     \
    v += REAL_OF_BITS(p.one_minus_beta2) * (d * d - v);                                 \
    if (AMSGRAD) top = max(top, v);                                                     \
    w -= step_size * m / (sqrt(AMSGRAD ? top : v) / correction2 + REAL_OF_BITS(p.eps)); \
  }
DEFINE_STEP(REAL)
#ifndef C_double
DEFINE_STEP(vec4)
#endif

void main() {
  AULE_FIND_TENSOR
  float found_inf = F32Ref(readable(p.found_inf)).v;
  REAL lr_value = LOAD(readable(p.lr_address), uint64_t(0), LR_DTYPE);
  if (p.found_inf != uint64_t(0) && found_inf != 0.0) return;
  lr = p.lr_address != uint64_t(0) ? lr_value : REAL_OF_BITS(p.lr);
  REAL step_count = REAL(F32Ref(p.state_step[t]).v);
  step_size = lr / -expm1_(step_count * REAL_OF_BITS(p.log_beta1));
  correction2 = sqrt(-expm1_(step_count * REAL_OF_BITS(p.log_beta2)));
  scale = UNSCALE ? REAL(F32Ref(p.grad_scale).v) : REAL(1);
#ifndef C_double
  const uint first = begin - gl_LocalInvocationID.x;
  if (VEC && end - first == uint(GROUP_ELEMS)) {
    vec4 w[2], g[2], m[2], v[2], top[2];
    load_vec8(p.param[t], first, PARAM_DTYPE, w);
    load_vec8(p.grad[t], first, GRAD_DTYPE, g);
    load_vec8(p.exp_avg[t], first, STATE_DTYPE, m);
    load_vec8(p.exp_avg_sq[t], first, STATE_DTYPE, v);
    if (AMSGRAD) load_vec8(p.max_exp_avg_sq[t], first, STATE_DTYPE, top);
    [[unroll]] for (int i = 0; i < 2; ++i) step_(w[i], g[i], m[i], v[i], top[i]);
    store_vec8(p.param[t], first, PARAM_DTYPE, w);
    if (UNSCALE) store_vec8(p.grad[t], first, GRAD_DTYPE, g);
    store_vec8(p.exp_avg[t], first, STATE_DTYPE, m);
    store_vec8(p.exp_avg_sq[t], first, STATE_DTYPE, v);
    if (AMSGRAD) store_vec8(p.max_exp_avg_sq[t], first, STATE_DTYPE, top);
    return;
  }
#endif
  for (uint k = begin; k < end; k += LOCAL) {
    uint64_t i = uint64_t(k);
    REAL w = LOAD(p.param[t], i, PARAM_DTYPE), g = LOAD(p.grad[t], i, GRAD_DTYPE);
    REAL m = LOAD(p.exp_avg[t], i, STATE_DTYPE), v = LOAD(p.exp_avg_sq[t], i, STATE_DTYPE), top = REAL(0);
    if (AMSGRAD) top = LOAD(p.max_exp_avg_sq[t], i, STATE_DTYPE);
    step_(w, g, m, v, top);
    if (UNSCALE) STORE(p.grad[t], i, GRAD_DTYPE, g);
    STORE(p.exp_avg[t], i, STATE_DTYPE, m);
    STORE(p.exp_avg_sq[t], i, STATE_DTYPE, v);
    if (AMSGRAD) STORE(p.max_exp_avg_sq[t], i, STATE_DTYPE, top);
    STORE(p.param[t], i, PARAM_DTYPE, w);
  }
}

// Adam and AdamW over many dense tensors at once:
//   g = grad / grad_scale, negated if maximize;  Adam: g += wd * w,  AdamW: w -= lr * wd * w
//   m = lerp(m, g, 1 - b1);  v = lerp(v, g^2, 1 - b2);  amsgrad: vmax = max(vmax, v)
//   w -= lr / (1 - b1^step) * m / (sqrt(v or vmax) / sqrt(1 - b2^step) + eps)
// Nothing is written if found_inf is not 0. 1 - b^step is -expm1(step * log b), which is accurate at step 1, too.
// Memory bound, 7 accesses per element. VEC (GPUs, all addresses aligned): whole workgroups use 16-byte accesses, with
// all of an invocation's loads before its arithmetic. Else neighbouring invocations take neighbouring elements.
#pragma aule params ring
#include "common/dtype.glsl"
#include "common/half.glsl"
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
  float lr;
  float log_beta1;
  float log_beta2;
  float one_minus_beta1;
  float one_minus_beta2;
  float weight_decay;
  float eps;
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

#include "optim/vec8.glsl"

float lr, step_size, correction2, scale;

// T: float or vec4.
#define DEFINE_STEP(T)                                              \
  void step_(inout T w, inout T g, inout T m, inout T v, inout T top) { \
    if (UNSCALE) g /= scale;                                        \
    T d = MAXIMIZE ? -g : g;                                        \
    if (ADAMW) w -= lr * p.weight_decay * w;                        \
    else d += p.weight_decay * w;                                   \
    m += p.one_minus_beta1 * (d - m);                               \
    v += p.one_minus_beta2 * (d * d - v);                           \
    if (AMSGRAD) top = max(top, v);                                 \
    w -= step_size * m / (sqrt(AMSGRAD ? top : v) / correction2 + p.eps); \
  }
DEFINE_STEP(float)
DEFINE_STEP(vec4)

void main() {
  AULE_FIND_TENSOR
  float found_inf = F32Ref(readable(p.found_inf)).v;
  float lr_value = load_float(readable(p.lr_address), uint64_t(0), LR_DTYPE);
  if (p.found_inf != uint64_t(0) && found_inf != 0.0) return;
  lr = p.lr_address != uint64_t(0) ? lr_value : p.lr;
  float step_count = F32Ref(p.state_step[t]).v;
  step_size = lr / -expm1_(step_count * p.log_beta1);
  correction2 = sqrt(-expm1_(step_count * p.log_beta2));
  scale = UNSCALE ? F32Ref(p.grad_scale).v : 1.0;
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
  for (uint k = begin; k < end; k += LOCAL) {
    uint64_t i = uint64_t(k);
    float w = load_float(p.param[t], i, PARAM_DTYPE), g = load_float(p.grad[t], i, GRAD_DTYPE);
    float m = load_float(p.exp_avg[t], i, STATE_DTYPE), v = load_float(p.exp_avg_sq[t], i, STATE_DTYPE), top = 0.0;
    if (AMSGRAD) top = load_float(p.max_exp_avg_sq[t], i, STATE_DTYPE);
    step_(w, g, m, v, top);
    if (UNSCALE) store_float(p.grad[t], i, GRAD_DTYPE, g);
    store_float(p.exp_avg[t], i, STATE_DTYPE, m);
    store_float(p.exp_avg_sq[t], i, STATE_DTYPE, v);
    if (AMSGRAD) store_float(p.max_exp_avg_sq[t], i, STATE_DTYPE, top);
    store_float(p.param[t], i, PARAM_DTYPE, w);
  }
}

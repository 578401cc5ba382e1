// SGD over many dense tensors at once:
//   g = grad / grad_scale, negated if maximize, + wd * w
//   momentum: b = first ? g : momentum * b + (1 - dampening) * g;  g = nesterov ? g + momentum * b : b
//   w -= lr * g
// Nothing is written if found_inf is not 0.
#pragma aule params ring
#pragma aule axis C float double
#pragma aule feature float64 if C=double
#include "common/dtype.glsl"
#include "common/real.glsl"
#include "common/multi_tensor.glsl"

struct Params {
  uint64_t param[TENSORS];
  uint64_t grad[TENSORS];
  uint64_t momentum_buffer[TENSORS];
  uint64_t lr_address;     // 0: lr below
  uint64_t grad_scale;     // 0: none
  uint64_t found_inf;      // 0: none
  // Of REAL numbers:
  uint64_t lr;
  uint64_t momentum;
  uint64_t one_minus_dampening;
  uint64_t weight_decay;
  uint elems[TENSORS];
  uint first_group[TENSORS];
  uint tensors;
};
#include "common/params.glsl"

layout(constant_id = 0) const int PARAM_DTYPE = 0;
layout(constant_id = 1) const int GRAD_DTYPE = 0;
layout(constant_id = 2) const int STATE_DTYPE = 0;
layout(constant_id = 3) const bool MOMENTUM = false;
layout(constant_id = 4) const bool FIRST = false;
layout(constant_id = 5) const bool NESTEROV = false;
layout(constant_id = 6) const bool MAXIMIZE = false;
layout(constant_id = 7) const int LR_DTYPE = 0;
layout(constant_id = 8) const bool UNSCALE = false;

void main() {
  AULE_FIND_TENSOR
  float found_inf = F32Ref(readable(p.found_inf)).v;
  REAL lr_value = LOAD(readable(p.lr_address), uint64_t(0), LR_DTYPE);
  if (p.found_inf != uint64_t(0) && found_inf != 0.0) return;
  REAL lr = p.lr_address != uint64_t(0) ? lr_value : REAL_OF_BITS(p.lr);
  const REAL momentum = REAL_OF_BITS(p.momentum);
  REAL scale = UNSCALE ? REAL(F32Ref(p.grad_scale).v) : REAL(1);
  for (uint k = begin; k < end; k += LOCAL) {
    uint64_t i = uint64_t(k);
    REAL w = LOAD(p.param[t], i, PARAM_DTYPE);
    REAL g = LOAD(p.grad[t], i, GRAD_DTYPE);
    if (UNSCALE) {
      g /= scale;
      STORE(p.grad[t], i, GRAD_DTYPE, g);
    }
    if (MAXIMIZE) g = -g;
    g += REAL_OF_BITS(p.weight_decay) * w;
    if (MOMENTUM) {
      REAL b = g;
      if (!FIRST)
        b = momentum * LOAD(p.momentum_buffer[t], i, STATE_DTYPE) + REAL_OF_BITS(p.one_minus_dampening) * g;
      STORE(p.momentum_buffer[t], i, STATE_DTYPE, b);
      g = NESTEROV ? g + momentum * b : b;
    }
    STORE(p.param[t], i, PARAM_DTYPE, w - lr * g);
  }
}

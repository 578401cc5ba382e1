#pragma aule axis C float double
#pragma aule feature float64 if C=double
// Implicit gradients of draws by their parameters, -(d cdf / d alpha) / pdf: of x from Gamma(alpha), or, DIRICHLET, of
// x / (1 - x) from Beta(alpha, total - alpha). One invocation per element. Where no series of few terms converges they
// are PyTorch's approximations (ATen/native/Distributions.h), to about 1e-3: saddle points of large parameters, and
// fitted quotients of polynomials.
layout(local_size_x = 64) in;
#include "common/dtype.glsl"
#include "common/float_bits.glsl"
#include "common/indexing.glsl"
#include "common/real.glsl"
layout(constant_id = 0) const int DTYPE = 0;
layout(constant_id = 1) const bool DIRICHLET = false;
struct Params {
  uint64_t x, alpha, total;
  uint64_t dst;
  uint64_t n;
};
#include "common/params.glsl"
#include "random/log_ratio.glsl"
#include "random/gamma_grad.glsl"

void main() {
  const uint64_t i = linear_invocation();
  if (i >= p.n) return;
  const REAL x = LOAD(p.x, i, DTYPE), alpha = LOAD(p.alpha, i, DTYPE);
  const REAL y = DIRICHLET ? dirichlet_gradient(x, alpha, LOAD(p.total, i, DTYPE)) : gamma_gradient(x, alpha);
  STORE(p.dst, i, DTYPE, y);
}

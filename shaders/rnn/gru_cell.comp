#pragma aule axis DIRECTION forward backward
#pragma aule axis C float double
#pragma aule feature float64 if C=double
// One step of a GRU cell (Cho et al. 2014, PyTorch's variant), gates in the order r, z, n:
//   forward:  r, z = sigmoid(i + h + biases);  hn = hidden_gates_n + hidden_bias_n
//             n = tanh(input_gates_n + input_bias_n + r * hn);  hy = n + z * (hx - n)
//             workspace [B, 5H] = (r, z, n, hx, hn), kept for the backward
//   backward: grad_input_gates, grad_hidden_gates [B, 3H] and grad_hx from grad_hy and the workspace
// One invocation per (batch, hidden) element; rows are contiguous.
#include "common/dtype.glsl"
layout(local_size_x = 64) in;
#include "common/indexing.glsl"
layout(constant_id = 0) const int DTYPE = 0;
struct Params {
  uint64_t input_gates, hidden_gates;  // backward: their gradients
  uint64_t input_bias, hidden_bias;    // may be 0
  uint64_t hx, hy, workspace;          // backward: hx = grad_hx, hy = grad_hy
  uint n, hidden;
};
#include "common/params.glsl"
#include "gates.glsl"

void main() {
  uint64_t id = linear_invocation();
  if (id >= uint64_t(p.n)) return;
  uint b = uint(id) / p.hidden, h = uint(id) % p.hidden;
  uint64_t row = uint64_t(b) * uint64_t(3u * p.hidden) + uint64_t(h);
  uint64_t kept = uint64_t(b) * uint64_t(5u * p.hidden) + uint64_t(h);
#ifdef DIRECTION_forward
  REAL i[3], g[3];
  for (int k = 0; k < 3; ++k) {
    uint64_t at = row + uint64_t(uint(k) * p.hidden);
    i[k] = LOAD(p.input_gates, at, DTYPE);
    g[k] = LOAD(p.hidden_gates, at, DTYPE);
    if (p.input_bias != uint64_t(0)) {
      i[k] += LOAD(p.input_bias, uint64_t(uint(k) * p.hidden + h), DTYPE);
      g[k] += LOAD(p.hidden_bias, uint64_t(uint(k) * p.hidden + h), DTYPE);
    }
  }
  REAL r = sigmoid(i[0] + g[0]), z = sigmoid(i[1] + g[1]), n = tanh_(i[2] + r * g[2]);
  REAL x = LOAD(p.hx, id, DTYPE);
  STORE(p.hy, id, DTYPE, n + z * (x - n));
  REAL keep[5] = REAL[5](r, z, n, x, g[2]);
  for (int k = 0; k < 5; ++k) STORE(p.workspace, kept + uint64_t(uint(k) * p.hidden), DTYPE, keep[k]);
#else
  REAL v[5];
  for (int k = 0; k < 5; ++k) v[k] = LOAD(p.workspace, kept + uint64_t(uint(k) * p.hidden), DTYPE);
  REAL gy = LOAD(p.hy, id, DTYPE);
  REAL gn = gy * (1.0 - v[1]) * (1.0 - v[2] * v[2]);
  REAL gr = gn * v[4] * v[0] * (1.0 - v[0]);
  REAL gz = gy * (v[3] - v[2]) * v[1] * (1.0 - v[1]);
  REAL input_[3] = REAL[3](gr, gz, gn), hidden_[3] = REAL[3](gr, gz, gn * v[0]);
  for (int k = 0; k < 3; ++k) {
    STORE(p.input_gates, row + uint64_t(uint(k) * p.hidden), DTYPE, input_[k]);
    STORE(p.hidden_gates, row + uint64_t(uint(k) * p.hidden), DTYPE, hidden_[k]);
  }
  STORE(p.hx, id, DTYPE, gy * v[1]);
#endif
}

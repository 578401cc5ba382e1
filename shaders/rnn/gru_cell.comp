#pragma aule axis DIRECTION forward backward
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
  float i[3], g[3];
  for (int k = 0; k < 3; ++k) {
    uint64_t at = row + uint64_t(uint(k) * p.hidden);
    i[k] = load_float(p.input_gates, at, DTYPE);
    g[k] = load_float(p.hidden_gates, at, DTYPE);
    if (p.input_bias != uint64_t(0)) {
      i[k] += load_float(p.input_bias, uint64_t(uint(k) * p.hidden + h), DTYPE);
      g[k] += load_float(p.hidden_bias, uint64_t(uint(k) * p.hidden + h), DTYPE);
    }
  }
  float r = sigmoid(i[0] + g[0]), z = sigmoid(i[1] + g[1]), n = tanh_(i[2] + r * g[2]);
  float x = load_float(p.hx, id, DTYPE);
  store_float(p.hy, id, DTYPE, n + z * (x - n));
  float keep[5] = float[5](r, z, n, x, g[2]);
  for (int k = 0; k < 5; ++k) store_float(p.workspace, kept + uint64_t(uint(k) * p.hidden), DTYPE, keep[k]);
#else
  float v[5];
  for (int k = 0; k < 5; ++k) v[k] = load_float(p.workspace, kept + uint64_t(uint(k) * p.hidden), DTYPE);
  float gy = load_float(p.hy, id, DTYPE);
  float gn = gy * (1.0 - v[1]) * (1.0 - v[2] * v[2]);
  float gr = gn * v[4] * v[0] * (1.0 - v[0]);
  float gz = gy * (v[3] - v[2]) * v[1] * (1.0 - v[1]);
  float input_[3] = float[3](gr, gz, gn), hidden_[3] = float[3](gr, gz, gn * v[0]);
  for (int k = 0; k < 3; ++k) {
    store_float(p.input_gates, row + uint64_t(uint(k) * p.hidden), DTYPE, input_[k]);
    store_float(p.hidden_gates, row + uint64_t(uint(k) * p.hidden), DTYPE, hidden_[k]);
  }
  store_float(p.hx, id, DTYPE, gy * v[1]);
#endif
}

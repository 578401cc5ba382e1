// torch_aule._C: devices, streams, memory and random state for the Python layer; no tensor maths.
#include "python/bindings.h"

PYBIND11_MODULE(_C, m) {
  using namespace aule::python;
  m.doc() = "torch_aule's native layer; use torch.aule and torch_aule instead.";
  bind_device(m);
  bind_stream(m);
  bind_profiler(m);
  bind_errors(m);
  bind_interrupts(m);
  bind_memory(m);
  bind_memory_history(m);
  bind_random(m);
  bind_attention(m);
  bind_products(m);
  bind_quantized(m);
  bind_rows(m);
  bind_convolutions(m);
  bind_families(m);
  bind_fallback(m);
  bind_kernels(m);
  bind_generated(m);
  bind_graphs(m);
  bind_scheduler(m);
  bind_transfers(m);
  bind_distributed(m);
}

// Generators.
#include <torch/csrc/Generator.h>

#include "python/bindings.h"
#include "runtime/generator.h"

namespace aule::python {

void bind_random(py::module_& m) {
  m.def("manual_seed", [](uint64_t seed, int device) {
    at::Generator g = runtime::default_generator(index_of(device));
    std::lock_guard lock(g.mutex());
    g.set_current_seed(seed);
  });
  m.def("seed", [](int device) {
    at::Generator g = runtime::default_generator(index_of(device));
    std::lock_guard lock(g.mutex());
    return g.seed();
  });
  m.def("initial_seed", [](int device) { return runtime::default_generator(index_of(device)).current_seed(); });
  m.def("get_rng_state", [](int device) { return runtime::default_generator(index_of(device)).get_state(); });
  m.def("set_rng_state", [](const at::Tensor& state, int device) {
    at::Generator g = runtime::default_generator(index_of(device));
    std::lock_guard lock(g.mutex());
    g.set_state(state);
  });
  m.def("default_generator", [](int device) {
    return py::reinterpret_steal<py::object>(
        THPGenerator_initDefaultGenerator(runtime::default_generator(index_of(device))));
  });
}

}  // namespace aule::python

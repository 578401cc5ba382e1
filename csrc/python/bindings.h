// One function for each topic of torch_aule._C.
#pragma once
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <map>
#include <string>

#include "core/dtype.h"
#include "runtime/streams.h"

namespace aule::python {

namespace py = pybind11;

inline c10::DeviceIndex index_of(int device) {
  return static_cast<c10::DeviceIndex>(device < 0 ? runtime::current_device() : device);
}

// For descriptions of problems in words: throws for other names.
inline DType dtype_named(const std::string& name) {
  static const std::map<std::string, DType> kNames = {
      {"f32", DType::f32}, {"f16", DType::f16},   {"bf16", DType::bf16}, {"f64", DType::f64}, {"i8", DType::i8},
      {"u8", DType::u8},   {"i16", DType::i16},   {"i32", DType::i32},   {"i64", DType::i64}, {"b8", DType::b8},
      {"c64", DType::c64}, {"c128", DType::c128}, {"c32", DType::c32}};
  return kNames.at(name);
}

void bind_device(py::module_& m);
void bind_stream(py::module_& m);
void bind_profiler(py::module_& m);
void bind_errors(py::module_& m);      // exceptions of torch_aule.errors
void bind_interrupts(py::module_& m);  // signals end waits for the device
void bind_memory(py::module_& m);
void bind_memory_history(py::module_& m);
void bind_random(py::module_& m);
void bind_attention(py::module_& m);  // cooperative matrices and attention's measured shapes
void bind_products(py::module_& m);   // plans of matrix products
void bind_quantized(py::module_& m);  // formats of quantized weights
void bind_rows(py::module_& m);       // plans of reductions, scans, softmax and norms
void bind_convolutions(py::module_& m);  // plans of convolutions
void bind_families(py::module_& m);   // plans of sorts, copies, indexing, losses, optimizers, pools and transforms
void bind_fallback(py::module_& m);
void bind_kernels(py::module_& m);
void bind_generated(py::module_& m);  // what generated code calls
void bind_graphs(py::module_& m);     // graphs, and captured calls of compiled functions
void bind_scheduler(py::module_& m);  // tasks, and quotas of streams
void bind_transfers(py::module_& m);  // copies between host and device with priorities
void bind_distributed(py::module_& m);

}  // namespace aule::python

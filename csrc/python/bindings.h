// One function for each topic of torch_aule._C.
#pragma once
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include "runtime/streams.h"

namespace aule::python {

namespace py = pybind11;

inline c10::DeviceIndex index_of(int device) {
  return static_cast<c10::DeviceIndex>(device < 0 ? runtime::current_device() : device);
}

void bind_device(py::module_& m);
void bind_stream(py::module_& m);
void bind_memory(py::module_& m);
void bind_random(py::module_& m);
void bind_attention(py::module_& m);  // cooperative matrices and attention's measured shapes
void bind_products(py::module_& m);   // plans of matrix products
void bind_fallback(py::module_& m);
void bind_kernels(py::module_& m);

}  // namespace aule::python

// Checks of the tensors of a collective; each error names the collective.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include <optional>
#include <vector>

#include "distributed/staging.h"

namespace aule::distributed {

bool on_device(const std::vector<at::Tensor>& tensors);  // of the first; the others must agree
void check_tensors(const char* name, const std::vector<at::Tensor>& tensors);
void check_results(const char* name, const std::vector<at::Tensor>& tensors);
void check_one(const char* name, const std::vector<at::Tensor>& tensors);
void check_one_list(const char* name, const std::vector<std::vector<at::Tensor>>& lists, int64_t length);
void check_elements(const char* name, const at::Tensor& of, int64_t expected, at::ScalarType dtype);
void check_one_dtype(const char* name, const std::vector<at::Tensor>& tensors);

// Raises if an argument of a collective over the CPU's tensors is the device's. Options are no tensors.
void check_on_host(const at::Tensor& tensor);
template <class T>
void check_on_host(const T&) {}
template <class T>
void check_on_host(const std::vector<T>& list) {
  for (const T& one : list) check_on_host(one);
}

// A reduction as gloo's one over `numbers`, with what is done before and after it on the device.
struct Reduction {
  c10d::ReduceOp::RedOpType op;
  at::ScalarType dtype;    // of the buffers' elements
  at::ScalarType numbers;  // what they are added as: a complex one as two real ones
  std::optional<Factor> factor;
  int64_t divisor = 1;
};
Reduction reduction_of(const char* name, const c10d::ReduceOp& op, at::ScalarType dtype, int ranks);

}  // namespace aule::distributed

// PyTorch's check that the tensors of a call lie on one device. Its code generator writes that into the kernels of
// other devices; ours are registered by hand.
#pragma once
#include <ATen/core/stack.h>

#include <string_view>

namespace c10 {
class OperatorHandle;
}

namespace aule::ops {

// Does nothing if no tensor is on aule. As on other devices these may lie on the host: scalars, which are tensors
// without dimensions that the call only reads; indices in a list (`x[i, j]`); what PyTorch's loops over lists hold.
void check_one_device(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
void check_one_device(const char* name, const torch::jit::Stack& stack);  // name as in "aten::mul.Tensor"
// The operator that a name such as "aten::mul.Tensor" means.
c10::OperatorHandle find_operator(std::string_view name);

}  // namespace aule::ops

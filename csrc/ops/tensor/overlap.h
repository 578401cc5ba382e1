// Whether operands of one command share memory, for kernels that take many tensors in no order.
#pragma once
#include <ATen/core/Tensor.h>

#include <vector>

namespace aule::ops {

struct ByteRange {
  uint64_t begin, end;  // device addresses, end exclusive; equal without elements
};
// From the first to the last byte that sizes and strides reach, gaps included.
ByteRange range_of(const at::Tensor& t);
// True if none of `written` meets another of them, and none of `read` meets any of them.
bool apart(std::vector<ByteRange> written, const std::vector<ByteRange>& read);

}  // namespace aule::ops

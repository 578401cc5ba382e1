// Whether tensors share memory: operands of an operator, those of one command in no order, and the two sides of a copy.
#pragma once
#include <ATen/core/stack.h>
#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <vector>

namespace aule::ops {

struct ByteRange {
  uint64_t begin, end;  // device addresses, end exclusive; equal without elements
};
// From the first to the last byte that sizes and strides reach, gaps included.
ByteRange range_of(const at::Tensor& t);
// True if none of `written` meets another of them, and none of `read` meets any of them.
bool apart(std::vector<ByteRange> written, const std::vector<ByteRange>& read);

// False if `a` and `b` have no byte in common: two slices of the columns of a matrix have none, although their ranges
// cross. True if they have, or if it takes too many steps to tell.
bool may_meet(const at::Tensor& a, const at::Tensor& b);
// True if elements of one index lie at one place. Then a kernel that goes element by element may read one and write the
// other.
bool same_places(const at::Tensor& a, const at::Tensor& b);

struct Operand {
  const at::Tensor* tensor = nullptr;
  bool written = false;
};
// Raises PyTorch's error if something is written to repeated elements, or to part of what an operand is. True if other
// operands share memory with what is written, which the error does not tell of: tensors with gaps. PyTorch's CPU then
// reads some of them after it has written there. Here run_with_copies() runs the operator.
bool reads_what_it_writes(const char* op, std::initializer_list<Operand> operands);
// Runs an operator, "aten::mul.out", with copies of the operands that share memory with what it writes.
void run_with_copies(const char* op, torch::jit::Stack* stack);

}  // namespace aule::ops

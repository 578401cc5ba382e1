// Products whose k is shared between workgroups: float32 sums [splits, batches, m, n], which a second kernel adds.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/matmul/launch.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

class SplitSums {
 public:
  SplitSums(const GemmCall& call, uint32_t splits);
  uint64_t address() const { return address_of(sums_); }
  const TensorArgs& written() const { return written_; }  // of the call, and the sums
  void add() const;                                       // and the call's epilogue

 private:
  const GemmCall& call_;
  uint32_t splits_;
  at::Tensor sums_;
  TensorArgs written_;
};

// out [m, n], dense, is the sum of `sums` [splits, m, n], float32, and of the bias [n] (undefined: none), rounded once.
void add_split_sums(const at::Tensor& sums, const at::Tensor& bias, const at::Tensor& out);

}  // namespace aule::ops

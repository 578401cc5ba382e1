// Products of one matrix with few rows, step after step, as a recurrent layer multiplies its state. Whoever reads the
// result adds the sums of its splits, so that a step has no kernel for that.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

#include "ops/matmul/launch.h"
#include "ops/matmul/route.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {

// Rows in a tensor: the first element, and strides in elements. A batch may lie before the one before it.
struct StepRows {
  const at::Tensor& of;
  int64_t offset = 0, batch = 0, row = 0;
};

class StepProducts {
 public:
  // `b` is [batches, k, n] of any strides.
  StepProducts(const char* op, at::Tensor b);
  // a @ b for `m` rows of each batch. The sums of the call before are lost.
  void multiply(const StepRows& a, uint32_t m);

  // [splits, batches, m, n] of dtype(), float32 where there are several splits.
  const at::Tensor& sums() const { return sums_; }
  uint32_t splits() const { return splits_; }
  DType dtype() const { return dtype_; }

 private:
  GemmProblem problem(const StepRows& a, uint32_t m) const;
  void plan_for(const GemmProblem& g);
  void reserve(uint32_t m);
  void multiply_apart(const StepRows& a, uint32_t m);

  const char* op_;
  at::Tensor b_, sums_;
  const DeviceProfile& profile_;
  MatrixUnits units_;
  std::optional<GemmPlan> plan_;
  GemmProblem planned_;  // what plan_ was made for
  bool apart_ = false;   // one product for each batch, by gemm()
  uint32_t splits_ = 1;
  DType dtype_;
};

}  // namespace aule::ops

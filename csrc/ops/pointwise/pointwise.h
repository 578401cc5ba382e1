// Pointwise ops: one function per arity, driven by a row. `out` may be undefined, then it is made and assigned.
// TensorIterator does broadcasting, promotion, resizing of an explicit out and overlap checks; operands keep their
// own dtypes and are converted as the kernel loads them; 0-dim CPU tensors travel by value.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>

#include <initializer_list>

#include "ops/pointwise/entries.h"

namespace at {
struct TensorIteratorBase;
}

namespace aule::ops {

// The op's Scalar arguments s0, s1, s2.
class Scalars {
 public:
  Scalars() = default;
  Scalars(std::initializer_list<c10::Scalar> values) {
    for (const c10::Scalar& v : values) {
      if (v.isFloatingPoint() || v.isComplex()) {
        real_[count_] = v.toDouble();
        integer_[count_] = whole(real_[count_]);
      } else {
        integer_[count_] = v.toLong();
        real_[count_] = static_cast<double>(integer_[count_]);
      }
      ++count_;
    }
  }
  int size() const { return count_; }
  double real(int i) const { return real_[i]; }
  int64_t integer(int i) const { return integer_[i]; }

 private:
  static int64_t whole(double x) {  // saturates: an infinite bound of clamp is no bound
    if (x >= 9.2e18) return INT64_MAX;
    if (x <= -9.2e18) return INT64_MIN;
    return x == x ? static_cast<int64_t>(x) : 0;
  }
  int count_ = 0;
  double real_[3] = {};
  int64_t integer_[3] = {};
};

at::Tensor& unary(const Row& row, at::Tensor& out, const at::Tensor& a, const Scalars& scalars = {});
// With another dtype rule than the row's: a float op of an activation keeps its dtype, say.
at::Tensor& unary(const Row& row, Rule rule, at::Tensor& out, const at::Tensor& a, const Scalars& scalars = {});
at::Tensor& binary(const Row& row, at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   const Scalars& scalars = {});
at::Tensor& binary(const Row& row, Rule rule, at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   const Scalars& scalars = {});
at::Tensor& ternary(const Row& row, at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                    const Scalars& scalars = {});
at::Tensor& where_out(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other, at::Tensor& out);

// Launches row over a built iterator (output first); `common` is the dtype to compute in.
void run_pointwise(const Row& row, at::TensorIteratorBase& iter, c10::ScalarType common, const Scalars& scalars);

}  // namespace aule::ops

// Pointwise ops: one function per arity, driven by an entry of the tables. An undefined `out` is made and assigned.
// TensorIterator broadcasts, promotes, resizes an explicit `out` and checks overlap. Operands keep their dtypes: the
// kernel converts as it loads. 0-dim CPU tensors become values in the params.
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
  static int64_t whole(double x) {  // saturates, so that clamp may have infinite bounds
    if (x >= 9.2e18) return INT64_MAX;
    if (x <= -9.2e18) return INT64_MIN;
    return x == x ? static_cast<int64_t>(x) : 0;
  }
  int count_ = 0;
  double real_[3] = {};
  int64_t integer_[3] = {};
};

at::Tensor& unary(const Entry& entry, at::Tensor& out, const at::Tensor& a, const Scalars& scalars = {});
// With another dtype rule than the entry's. An activation keeps its dtype although its entry promotes to float.
at::Tensor& unary(const Entry& entry, Rule rule, at::Tensor& out, const at::Tensor& a, const Scalars& scalars = {});
at::Tensor& binary(const Entry& entry, at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   const Scalars& scalars = {});
at::Tensor& binary(const Entry& entry, Rule rule, at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                   const Scalars& scalars = {});
at::Tensor& ternary(const Entry& entry, at::Tensor& out, const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                    const Scalars& scalars = {});
at::Tensor& where_out(const at::Tensor& condition, const at::Tensor& self, const at::Tensor& other, at::Tensor& out);

// Launches an entry over a built iterator (output first). `common` is the dtype to compute in.
void run_pointwise(const Entry& entry, at::TensorIteratorBase& iter, c10::ScalarType common, const Scalars& scalars);

}  // namespace aule::ops

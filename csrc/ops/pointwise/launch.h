// An entry of the pointwise tables, launched over a built iterator.
#pragma once
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>

#include <initializer_list>

#include "core/dtype.h"
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
      if (v.isComplex()) {
        complex_[count_] = v.toComplexDouble();
        real_[count_] = complex_[count_].real();  // not read: only complex arithmetic takes a complex number
      } else if (v.isFloatingPoint()) {
        real_[count_] = v.toDouble();
        integer_[count_] = whole(real_[count_]);
      } else {
        integer_[count_] = v.toLong();
        real_[count_] = static_cast<double>(integer_[count_]);
      }
      if (!v.isComplex()) complex_[count_] = real_[count_];
      ++count_;
    }
  }
  int size() const { return count_; }
  double real(int i) const { return real_[i]; }
  int64_t integer(int i) const { return integer_[i]; }
  c10::complex<double> complex(int i) const { return complex_[i]; }

 private:
  static int64_t whole(double x) {  // saturates, so that clamp may have infinite bounds
    if (x >= 9.2e18) return INT64_MAX;
    if (x <= -9.2e18) return INT64_MIN;
    return x == x ? static_cast<int64_t>(x) : 0;
  }
  int count_ = 0;
  double real_[3] = {};
  int64_t integer_[3] = {};
  c10::complex<double> complex_[3] = {};
};

// The type that the entry's kernel computes in for operands of dtype `common`. Throws if there is no such type.
DType arithmetic_of(const Entry& entry, c10::ScalarType common);

// The iterator has the output first. `common` is the dtype to compute in.
void run_pointwise(const Entry& entry, at::TensorIteratorBase& iter, c10::ScalarType common, const Scalars& scalars);

}  // namespace aule::ops

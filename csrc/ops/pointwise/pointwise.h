// Pointwise ops: one function per arity, driven by an entry of the tables. An undefined `out` is made and assigned.
// TensorIterator broadcasts, promotes, resizes an explicit `out` and checks overlap. Operands keep their dtypes: the
// kernel converts as it loads. 0-dim CPU tensors become values in the params.
#pragma once
#include <ATen/core/Tensor.h>

#include "ops/pointwise/launch.h"

namespace aule::ops {

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

}  // namespace aule::ops

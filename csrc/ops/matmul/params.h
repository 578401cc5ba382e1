// A GemmProblem as the params of one of the kernels (shaders/matmul/gemm_params.glsl and those like it).
#pragma once
#include "ops/matmul/plan.h"

namespace aule::ops {

// The members that the kernels' params share.
template <class Params>
Params fill(const GemmProblem& g) {
  Params p{};
  p.a = g.a.address;
  p.b = g.b.address;
  p.c = g.c.address;
  p.out_ = g.out.address;
  p.a_batch = g.a.batch;
  p.b_batch = g.b.batch;
  p.c_batch = g.c.batch;
  p.out_batch = g.out.batch;
  p.a_m = static_cast<int>(g.a.row);
  p.a_k = static_cast<int>(g.a.col);
  p.b_k = static_cast<int>(g.b.row);
  p.b_n = static_cast<int>(g.b.col);
  p.c_m = static_cast<int>(g.c.row);
  p.c_n = static_cast<int>(g.c.col);
  p.out_m = static_cast<int>(g.out.row);
  p.out_n = static_cast<int>(g.out.col);
  p.m = g.m;
  if constexpr (requires { p.batches; }) {
    p.n = g.n;
    p.k = g.k;
    p.batches = g.batches;
  }
  return p;
}

}  // namespace aule::ops

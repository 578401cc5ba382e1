// Products of 16-bit matrices on the matrix units (gemm_coopmat.comp): tile, staging of each operand, split of k.
#pragma once
#include <ATen/ops/empty.h>

#include <optional>

#include "kernels_matmul.gen.h"
#include "ops/matmul/launch.h"
#include "ops/matmul/route.h"
#include "ops/matmul/kernels/splits.h"

namespace aule::ops {

// The order of elements for which kernels fill matrices element by element.
bool is_ordered(const MatrixLayout& layout);

// A kernel that decodes b itself (ops/quantized) asks this of a plan. k is then a multiple of the tile's step.
struct DecodedOperand {
  uint32_t step = 1;         // of k, that are decoded together; 1: b is dense
  double us_per_column = 0;  // of a tile, for 64 k
};

std::optional<GemmPlan> plan_coopmat(const DeviceProfile& profile, const MatrixUnits& units, const GemmProblem& g,
                                     const DecodedOperand& decoded = {});
// The same plan for rows of out that start anywhere, if its kernel can store them as vec8s.
std::optional<CoopMatPlan> with_row_classes(const CoopMatPlan& plan, const GemmProblem& g);
void launch_coopmat(const GemmCall& call, const CoopMatPlan& plan);
// The sums of its splits alone, [splits, batches, m, n], to `sums`, which `args` has. The plan shares no tiles.
void launch_coopmat_sums(const GemmCall& call, const CoopMatPlan& plan, uint64_t sums, const TensorArgs& args);

// A plan is launched with gemm_coopmat.comp, or with a kernel of the same constants and params and an operand of its
// own: `Operands` has their types, the kernel, and what completes them.

struct DenseOperands {
  using Params = GemmCoopmatParams;
  using Spec = GemmCoopmatSpec;
  static auto kernel(DType in, const CoopMatPlan& plan) {
    return kernel::gemm_coopmat(in, static_cast<int>(plan.fragments), plan.row_classes);
  }
  void complete(Params&, Spec&) const {}
};

template <class Spec>
Spec tile_spec(const CoopMatPlan& x) {
  return {.mat_m = x.mat_m,
          .mat_n = x.mat_n,
          .local = x.local,
          .bm = x.tile.bm,
          .bn = x.tile.bn,
          .wm = x.tile.wm,
          .wn = x.tile.wn,
          .bk = x.tile.bk,
          .a_mn_major = !x.a.k_major,
          .b_mn_major = !x.b.k_major};
}

template <class Spec>
Spec product_spec(const GemmCall& call, const CoopMatPlan& plan) {
  constexpr int kBand = 8;
  Spec spec = tile_spec<Spec>(plan);
  spec.a_vec = plan.a.vec;
  spec.b_vec = plan.b.vec;
  spec.c_vec = plan.c_vec;
  spec.out_vec = plan.out_vec;
  spec.band = kBand;
  spec.k_checks = static_cast<int>(plan.k_checks);
  spec.is_ragged = plan.is_ragged;
  spec.line = plan.line;
  spec.addresses = plan.addresses;
  spec.pairs = plan.pairs;
  spec.odd_n = plan.odd_n;
  spec.moves_last = plan.moves_last;
  if (plan.writes == CoopMatPlan::Writes::result) {
    spec.activation = static_cast<int>(call.problem.activation);
    spec.residual = call.problem.has_residual;
  }
  return spec;
}

// Workgroups multiply their tiles or shares; then each subgroup adds what belongs to 1 x 2 matrices of a shared tile,
// without operands.
template <class Operands>
void launch_shares(const Operands& operands, const GemmCall& call, const CoopMatPlan& plan) {
  const GemmProblem& g = call.problem;
  const TilePlan& t = plan.tile;
  const uint32_t shared = ceil_div(g.m, t.bm) * ceil_div(g.n, t.bn) * g.batches - plan.whole;
  const uint32_t workgroups = ceil_div(shared * ceil_div(g.k, t.bk), plan.share);
  const at::Tensor slabs = at::empty({int64_t{shared} + workgroups, t.bm, t.bn}, call.out.options().dtype(at::kFloat));
  TensorArgs first = call.args, second = call.args;
  const auto shared_params = [&]<class Params>(Params& p, uint64_t address) {
    p.splits = plan.splits;
    p.whole = plan.whole;
    p.share = plan.share;
    p.slabs = address;
  };
  auto p = params_of<typename Operands::Params>(call);
  auto spec = product_spec<typename Operands::Spec>(call, plan);
  shared_params(p, first.write(slabs));
  spec.shares = 1;
  operands.complete(p, spec);
  launch(call.stream(), Operands::kernel(g.in, plan), spec, p, first, plan.grid);

  auto sum = params_of<GemmCoopmatParams>(call);
  auto of_sums = product_spec<GemmCoopmatSpec>(call, plan);
  shared_params(sum, second.read(slabs));
  second.work = {};  // sums of parts
  of_sums.shares = 2;
  of_sums.local = plan.local / static_cast<int>((t.bm / t.wm) * (t.bn / t.wn));
  of_sums.wm = plan.mat_m;
  of_sums.wn = 2 * plan.mat_n;
  const uint32_t subgroups = (t.bm / plan.mat_m) * (t.bn / (2 * plan.mat_n));
  launch(call.stream(), DenseOperands::kernel(g.in, plan), of_sums, sum, second,
         linear_grid(uint64_t{shared} * subgroups));
}

// The sums of its splits alone, [splits, batches, m, n], to `sums`, which `args` has.
template <class Operands>
void launch_sums(const Operands& operands, const GemmCall& call, const CoopMatPlan& plan, uint64_t sums,
                 const TensorArgs& args) {
  CoopMatPlan of_sums = plan;
  of_sums.writes = CoopMatPlan::Writes::split_sums;
  of_sums.c_vec = of_sums.out_vec = 0;
  of_sums.odd_n = false;
  auto p = params_of<typename Operands::Params>(call);
  auto spec = product_spec<typename Operands::Spec>(call, of_sums);
  p.splits = plan.splits;
  p.out_ = sums;
  operands.complete(p, spec);
  launch(call.stream(), Operands::kernel(call.problem.in, plan), spec, p, args, plan.grid);
}

template <class Operands>
void launch_product(const Operands& operands, const GemmCall& call, const CoopMatPlan& plan) {
  if (plan.writes == CoopMatPlan::Writes::split_sums && plan.share == 0) {
    const SplitSums sums(call, plan.splits);
    launch_sums(operands, call, plan, sums.address(), sums.written());
    sums.add();
    return;
  }
  if (plan.share != 0) return launch_shares(operands, call, plan);
  auto p = params_of<typename Operands::Params>(call);
  auto spec = product_spec<typename Operands::Spec>(call, plan);
  p.splits = plan.splits;
  operands.complete(p, spec);
  launch(call.stream(), Operands::kernel(call.problem.in, plan), spec, p, call.args, plan.grid);
}

}  // namespace aule::ops

#include "ops/matmul/kernels/bf16x3.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels_matmul.gen.h"
#include "ops/matmul/kernels/coopmat.h"
#include "ops/matmul/launch.h"
#include "ops/matmul/tuning_table.h"

namespace aule::ops {
namespace {

// A float32 operand as pieces along k, in the order of gemm_bf16x3_operand.comp.
struct Pieces {
  MatrixView of;   // the operand
  int64_t row, k;  // its strides along m or n, and along k
  int order;       // of the pieces: 1 one piece, 2 and 3 the two orders of three
  bool k_major;
  uint32_t inner, outer, padded, all_outer, batches;
  int64_t piece, elems;  // from one piece to the next; of a batch
  MatrixView view;       // of all pieces: row along m or n, col along k; address 0 until they have memory

  Pieces(const MatrixView& v, int64_t row_, int64_t k_, uint32_t rows, uint32_t depth, uint32_t batches_, int order_)
      : of(v), row(row_), k(k_), order(order_), k_major(k == 1 || row != 1) {
    inner = k_major ? depth : rows;
    outer = k_major ? rows : depth;
    padded = round8(inner);
    all_outer = k_major ? outer : round8(outer);
    batches = v.batch == 0 ? 1 : batches_;
    const int64_t count = order == 1 ? 1 : 3, ld = k_major ? count * padded : padded;
    piece = k_major ? padded : all_outer * ld;
    elems = k_major ? outer * ld : count * piece;
    view = {0, v.batch == 0 ? 0 : elems, k_major ? ld : 1, k_major ? 1 : ld};
  }
};

at::Tensor split(const at::Tensor& t, const Pieces& x, DType dtype) {
  const at::Tensor out =
      at::empty({x.batches, x.elems}, t.options().dtype(dtype == DType::f16 ? at::kHalf : at::kBFloat16));
  GemmBf16x3OperandParams p{};
  TensorArgs args;
  args.read(t);
  p.x = x.of.address;
  p.out_ = args.write(out);
  p.x_batch = x.of.batch;
  p.x_outer = x.k_major ? x.row : x.k;
  p.x_inner = x.k_major ? x.k : x.row;
  p.out_batch = x.elems;
  p.out_outer = x.k_major ? x.view.row : x.view.col;
  p.piece = x.piece;
  p.outer = x.outer;
  p.all_outer = x.all_outer;
  p.inner = x.inner;
  p.padded = x.padded;
  p.batches = x.batches;
  const bool vec = p.x_inner == 1 && x.inner % 4 == 0 && (p.x_outer % 4 == 0 || x.outer == 1) &&
                   (p.x_batch % 4 == 0 || x.batches == 1) && p.x % 16 == 0;
  launch(current(t), kernel::gemm_bf16x3_operand(), {.dtype = dtype, .pieces = x.order, .vec = vec ? 4 : 1}, p, args,
         linear_grid(ceil_div(uint64_t{x.batches} * x.all_outer * (x.padded / 4), GemmBf16x3OperandParams::kLocal)));
  return out;
}

// The product of the pieces, which get the memory of `a` and `b`.
GemmProblem product_of_pieces(const GemmProblem& g, DType pieces, bool two, const MatrixView& a, const MatrixView& b) {
  GemmProblem h = g;
  h.in = pieces;
  h.a = a;
  h.b = b.transposed();
  h.k = round8(g.k) * (two ? 3 : 1);
  return h;
}

}  // namespace

bool may_take_bf16x3(const Caps& caps) { return caps.cooperative_matrix && !caps.software_simd(); }

std::optional<Float32Precision> asked_float32_precision() {
  switch (at::globalContext().float32Precision(at::Float32Backend::GENERIC, at::Float32Op::ALL)) {
    case at::Float32Precision::IEEE: return Float32Precision::highest;
    case at::Float32Precision::TF32: return Float32Precision::high;
    case at::Float32Precision::BF16: return Float32Precision::medium;
    default: return std::nullopt;
  }
}

std::optional<GemmPlan> plan_bf16x3(const DeviceProfile& profile, const MatrixUnits& units, const GemmProblem& g,
                                    const Overrides& overrides) {
  constexpr uint32_t kFewRows = 16;  // memory-bound
  if (g.in != DType::f32 || g.result != DType::f32 || std::min({g.m, g.n, g.k}) <= kFewRows) return std::nullopt;
  Bf16x3Plan plan;
  plan.pieces = multiplied_dtype(g, overrides);
  if (plan.pieces == DType::f32 || !units.layout.usable) return std::nullopt;
  if (plan.pieces == DType::bf16 &&
      uint64_t{g.m} * g.n * g.k * g.batches < product_tuning(profile).bf16x3_multiplications)
    return std::nullopt;
  plan.two_pieces = g.precision == Float32Precision::high;
  if (plan.two_pieces && g.k > UINT32_MAX / 4) return std::nullopt;
  // Temporaries start at multiples of 16 bytes.
  const int order_a = plan.two_pieces ? 2 : 1, order_b = plan.two_pieces ? 3 : 1;
  const GemmProblem h = product_of_pieces(g, plan.pieces, plan.two_pieces,
                                          Pieces(g.a, g.a.row, g.a.col, g.m, g.k, g.batches, order_a).view,
                                          Pieces(g.b, g.b.col, g.b.row, g.n, g.k, g.batches, order_b).view);
  const auto product = plan_coopmat(profile, units, h);
  if (!product) return std::nullopt;
  plan.product_transposed = product->transposed;
  plan.product = std::get<CoopMatPlan>(product->kernel);
  return GemmPlan{.kernel = plan};
}

void launch_bf16x3(const GemmCall& call, const Bf16x3Plan& plan) {
  const GemmProblem& g = call.problem;
  Pieces x(g.a, g.a.row, g.a.col, g.m, g.k, g.batches, plan.two_pieces ? 2 : 1),
      y(g.b, g.b.col, g.b.row, g.n, g.k, g.batches, plan.two_pieces ? 3 : 1);
  TensorArgs args;
  const at::Tensor a = split(call.a, x, plan.pieces), b = split(call.b, y, plan.pieces);
  x.view.address = args.read(a);
  y.view.address = args.read(b);
  if (g.has_c) args.read(call.c);
  if (g.has_residual) args.read(call.epilogue.residual);
  args.write(call.out);
  const GemmProblem h = product_of_pieces(g, plan.pieces, plan.two_pieces, x.view, y.view);
  const GemmCall product{call.op,
                         call.profile,
                         call.units,
                         plan.product_transposed ? h.transposed() : h,
                         call.beta,
                         call.alpha,
                         a,
                         b,
                         call.c,
                         call.out,
                         call.epilogue,
                         args};
  launch_coopmat(product, plan.product);
}

}  // namespace aule::ops

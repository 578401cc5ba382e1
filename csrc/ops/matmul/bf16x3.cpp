#include "ops/matmul/bf16x3.h"

#include <ATen/Context.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "kernels_matmul.gen.h"
#include "ops/coopmat/layout.h"
#include "ops/matmul/coopmat.h"
#include "ops/tensor/tensor_arg.h"

namespace aule::ops {
namespace {

at::Float32MatmulPrecision asked_precision() {
  auto& context = at::globalContext();
  // torch.backends.fp32_precision; set_float32_matmul_precision leaves it alone.
  switch (context.float32Precision(at::Float32Backend::GENERIC, at::Float32Op::ALL)) {
    case at::Float32Precision::IEEE: return at::Float32MatmulPrecision::HIGHEST;
    case at::Float32Precision::TF32: return at::Float32MatmulPrecision::HIGH;
    case at::Float32Precision::BF16: return at::Float32MatmulPrecision::MEDIUM;
    default: break;
  }
  try {
    return context.float32MatmulPrecision();
  } catch (const c10::Error&) {  // settings of other backends contradict each other: nothing was asked of this one
    return at::Float32MatmulPrecision::HIGHEST;
  }
}

// Lets tests run where matrix units take float16 only, whose range the pieces then have.
bool float16_for_tests() {
  static const char* text = std::getenv("AULE_FLOAT32_PIECES");
  return text != nullptr && std::strcmp(text, "float16") == 0;
}

uint32_t round8(uint32_t x) { return (x + 7) / 8 * 8; }

// A float32 operand as pieces along k.
struct Pieces {
  at::Tensor data;
  MatrixView view;
};

// `order` as in gemm_pieces.comp; `row` is the stride of v along m or n, `k` along k.
Pieces split(const at::Tensor& t, const MatrixView& v, int64_t row, int64_t k, uint32_t rows, uint32_t depth,
             uint32_t batches, int order, DType dtype) {
  const bool along_k = k == 1 || row != 1;
  const uint32_t inner = along_k ? depth : rows, outer = along_k ? rows : depth, padded = round8(inner),
                 all_outer = along_k ? outer : round8(outer), count = order == 1 ? 1 : 3,
                 kept = v.batch == 0 ? 1 : batches;
  const int64_t ld = along_k ? int64_t{count} * padded : padded, piece = along_k ? padded : all_outer * ld;
  const int64_t batch = along_k ? outer * ld : count * piece;
  Pieces out;
  out.data = at::empty({kept, batch}, t.options().dtype(dtype == DType::f16 ? at::kHalf : at::kBFloat16));
  GemmPiecesParams p{};
  TensorArgs args;
  args.read(t);
  p.x = v.address;
  p.out_ = args.write(out.data);
  p.x_batch = v.batch;
  p.x_outer = along_k ? row : k;
  p.x_inner = along_k ? k : row;
  p.out_batch = batch;
  p.out_outer = ld;
  p.piece = piece;
  p.outer = outer;
  p.all_outer = all_outer;
  p.inner = inner;
  p.padded = padded;
  p.batches = kept;
  const bool vec = p.x_inner == 1 && inner % 4 == 0 && (p.x_outer % 4 == 0 || outer == 1) &&
                   (p.x_batch % 4 == 0 || kept == 1) && p.x % 16 == 0;
  launch(current(t), kernel::gemm_pieces(), {.dtype = dtype, .pieces = order, .vec = vec ? 4 : 1}, p, args,
         linear_grid(ceil_div(uint64_t{kept} * all_outer * (padded / 4), 256)));
  out.view = {p.out_, v.batch == 0 ? 0 : batch, along_k ? ld : 1, along_k ? 1 : ld};  // row: along m or n, col: along k
  return out;
}

}  // namespace

bool gemm_of_pieces(const GemmProblem& g, const at::Scalar& beta, const at::Scalar& alpha, const at::Tensor& a,
                    const at::Tensor& b, const at::Tensor& c, const at::Tensor& out) {
  constexpr uint32_t kFewRows = 16;               // memory-bound
  constexpr uint64_t kWorth = uint64_t{1} << 27;  // multiplications that take as long as two more launches
  if (g.in != DType::f32 || g.result != DType::f32 || std::min({g.m, g.n, g.k}) <= kFewRows) return false;
  const DType dtype = float16_for_tests() ? DType::f16 : DType::bf16;
  if (dtype == DType::bf16 && uint64_t{g.m} * g.n * g.k * g.batches < kWorth) return false;
  const Caps& caps = caps_of(out);
  if (!caps.cooperative_matrix || (dtype == DType::bf16 && !caps.bfloat16)) return false;
  if (caps.is_software_simd()) return false;  // as gemm_on_matrices
  const auto precision = asked_precision();
  if (precision == at::Float32MatmulPrecision::HIGHEST) return false;
  const bool high = precision == at::Float32MatmulPrecision::HIGH;
  if (high && g.k > UINT32_MAX / 4) return false;
  if (!matrix_layout(static_cast<int>(out.get_device()), dtype).usable) return false;

  const Pieces x = split(a, g.a, g.a.row, g.a.col, g.m, g.k, g.batches, high ? 2 : 1, dtype),
               y = split(b, g.b, g.b.col, g.b.row, g.n, g.k, g.batches, high ? 3 : 1, dtype);
  GemmProblem h = g;
  h.in = dtype;
  h.a = x.view;
  h.b = y.view.transposed();
  h.k = round8(g.k) * (high ? 3 : 1);
  TensorArgs args;
  args.read(x.data);
  args.read(y.data);
  if (g.has_c) args.read(c);
  args.write(out);
  return gemm_on_matrices(h, beta, alpha, args, out);
}

}  // namespace aule::ops

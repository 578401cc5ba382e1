#include "ops/matmul/plan_text.h"

#include "ops/tensor/plan_text.h"

namespace aule::ops {
namespace {

// Numbers and words side by side, with one space between them.
template <class... T>
std::string words(const T&... parts) {
  std::string all;
  const auto add = [&](const auto& part) {
    std::string text;
    if constexpr (std::is_convertible_v<decltype(part), std::string>)
      text = part;
    else
      text = std::to_string(part);
    if (text.empty()) return;
    if (!all.empty()) all += ' ';
    all += text;
  };
  (add(parts), ...);
  return all;
}

std::string tile(const TilePlan& t) {
  return std::to_string(t.bm) + "x" + std::to_string(t.bn) + "x" + std::to_string(t.bk) + " of " +
         std::to_string(t.wm) + "x" + std::to_string(t.wn);
}

// "a k16": a is k-major, 16 elements a load; "b n8": b is n-major.
std::string operand(const char* name, char across, bool k_major, int vec = 0) {
  std::string text = std::string(name) + " " + (k_major ? 'k' : across);
  if (vec != 0) text += std::to_string(vec);
  return text;
}
std::string operands(const OperandPlan& a, const OperandPlan& b) {
  return operand("a", 'm', a.k_major, a.vec) + " " + operand("b", 'n', b.k_major, b.vec);
}

std::string coopmat(const CoopMatPlan& p) {
  static constexpr const char* kFragments[] = {"opaque", "ordered", "padded"};
  static constexpr const char* kChecks[] = {"", "checks every step", "checks the first step"};
  static constexpr const char* kWrites[] = {"", "writes sums", "adds splits"};
  const std::string shares =
      p.share == 0 ? "" : words("whole", static_cast<int>(p.whole), "shares of", static_cast<int>(p.share));
  return words("coopmat", kFragments[static_cast<size_t>(p.fragments)], tile(p.tile), "matrices",
               std::to_string(p.mat_m) + "x" + std::to_string(p.mat_n), "local", p.local, operands(p.a, p.b), "c",
               p.c_vec, "out", p.out_vec, p.odd_n ? "odd n" : "", kChecks[static_cast<size_t>(p.k_checks)],
               p.is_ragged ? "ragged" : "", p.moves_last ? "moves the last tiles" : "", "line", p.line, "addresses",
               p.addresses, p.pairs ? "pairs" : "", p.row_classes ? "row classes" : "", "splits", p.splits, shares,
               kWrites[static_cast<size_t>(p.writes)], grid_text(p.grid));
}

struct TextOf {
  std::string operator()(const ScalarPlan& p) const { return words("scalar", grid_text(p.grid)); }
  std::string operator()(const SimdPlan& p) const {
    return words("simd", std::to_string(p.rows) + "x" + std::to_string(8 * p.columns), "pairs", p.a_pair, p.b_pair,
                 grid_text(p.grid));
  }
  std::string operator()(const SimdUnrolledPlan& p) const {
    return words("simd_unrolled", std::to_string(p.rows) + "x16x" + std::to_string(p.step), "units", p.a_unit, p.b_unit,
                 p.out_pair ? "out pairs" : "", "rest n", p.n_rest, "k", p.k_rest, grid_text(p.grid));
  }
  std::string operator()(const GemvPlan& p) const {
    return words("gemv", operand("b", 'n', p.b_k_major), grid_text(p.grid));
  }
  std::string operator()(const GemvWidePlan& p) const {
    return words("gemv_wide rows", p.rows, operand("b", 'n', p.b_k_major), "slice", p.slice, grid_text(p.grid));
  }
  std::string operator()(const GemvCoopMatPlan& p) const {
    return words("gemv_coopmat", operand("b", 'n', p.b_k_major), "wide", p.wide, "local", p.local, grid_text(p.grid));
  }
  std::string operator()(const SimtPlan& p) const {
    return words("simt", operand("a", 'm', p.a_k_major), operand("b", 'n', p.b_k_major), grid_text(p.grid));
  }
  std::string operator()(const SimtLargePlan& p) const {
    return words("simt_large", operands(p.a, p.b), "out", p.out_vec, grid_text(p.grid));
  }
  std::string operator()(const SimtSplitsPlan& p) const {
    return words("simt_splits", std::to_string(8 * p.rows) + "x128", operands(p.a, p.b), "splits", p.splits, "of",
                 p.k_split, grid_text(p.grid));
  }
  std::string operator()(const CoopMatPlan& p) const { return coopmat(p); }
  std::string operator()(const Int8Plan& p) const {
    const std::string by = p.shape.m == 0 ? "dot products"
                                          : "matrices " + std::to_string(p.shape.m) + "x" + std::to_string(p.shape.n) +
                                                "x" + std::to_string(p.shape.k);
    return words("int8", tile(p.tile), by, "local", p.local, operands(p.a, p.b),
                 p.stores_matrices ? "stores matrices" : "", grid_text(p.grid));
  }
  std::string operator()(const Bf16x3Plan& p) const {
    return words("bf16x3", p.two_pieces ? "two pieces of" : "one piece of",
                 p.pieces == DType::f16 ? "f16:" : "bf16:", p.product_transposed ? "transposed" : "",
                 coopmat(p.product));
  }
  std::string operator()(const LongKPlan& p) const { return words("long_k slices of", p.slice); }
  std::string operator()(const AlignedRowsPlan& p) const {
    static constexpr const char* kHalves[] = {"", "batches in halves", "rows in halves", "columns in halves"};
    return words("aligned_rows of", p.a ? "a" : "", p.b ? "b" : "", p.out ? "out" : "",
                 kHalves[static_cast<size_t>(p.halves)]);
  }
  std::string operator()(const PartsPlan& p) const {
    return words("parts, the first of", p.first, p.of_rows ? "rows" : "columns");
  }
  std::string operator()(const DenseOutPlan&) const { return "dense_out"; }
  std::string operator()(const WidenedPlan&) const { return "widened"; }
};

}  // namespace

std::string text_of(const GemmPlan& plan) {
  static constexpr const char* kEpilogue[] = {"", "epilogue fused", "epilogue apart"};
  return words(plan.transposed ? "transposed" : "", std::visit(TextOf{}, plan.kernel),
               kEpilogue[static_cast<size_t>(plan.epilogue)]);
}

}  // namespace aule::ops

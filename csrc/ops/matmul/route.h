// The kernel that multiplies two matrices, and its sizes: one function, from a problem and a device to a plan. It
// reads no environment, no file and no device, and calls no kernel. Each plan is launched by the file of its name.
#pragma once
#include <cstdint>
#include <optional>
#include <variant>

#include "core/access.h"
#include "core/device_profile.h"
#include "core/environment.h"
#include "ops/coopmat/probe.h"
#include "ops/matmul/problem.h"

namespace aule::ops {

// Facts of a device's matrix units that kernels found by running there, which its profile cannot say.
struct MatrixUnits {
  MatrixLayout layout;        // of the dtype that multiplied_dtype() names; not usable: no matrix units for it
  uint32_t int8_refuted = 0;  // bit i: int8 tile i gave a wrong product
};

// lavapipe has kernels of its own, without barriers.
inline bool is_simd_device(const DeviceProfile& profile) {
  return profile.software_simd() && profile.subgroup_size == 8;
}

// An operand, k-major or mn-major; `vec` elements (int8: bytes) are one load.
struct OperandPlan {
  bool k_major = true;
  int vec = 0;
};

// A side in whole vec8s.
inline uint32_t round8(uint32_t x) { return round_up(x, 8); }

// A tile of out per workgroup (bm x bn) and per subgroup (wm x wn); the step along k.
struct TilePlan {
  uint32_t bm = 0, bn = 0, wm = 0, wn = 0, bk = 0;
  bool operator==(const TilePlan&) const = default;
};

// Facts of a kind of plan are static members that only those have of which they are true:
//
//   kIsComposed         makes tensors of its operands; the other kernels read addresses alone
//   kHasNoEpilogue      leaves activation and residual to kernels of their own: 64-bit arithmetic, int8, and kernels
//   for
//                       software devices, where an activation takes longer to compile than to run. A product that is
//                       made of others hands the epilogue to those.
//   kReadsBeforeWrites  reads an element of c in the invocation that then writes it to out, so that c may be out itself

// 64-bit arithmetic: float64 and integers (gemm_scalar.comp).
struct ScalarPlan {
  static constexpr bool kHasNoEpilogue = true, kReadsBeforeWrites = true;
  Grid grid;
};

// Software devices: a subgroup of 8 makes rows x (8 * columns), without a barrier (gemm_simd.comp). A pair is what one
// load brings: 0 one element, 1 two along k, 2 two along m or n.
struct SimdPlan {
  static constexpr bool kHasNoEpilogue = true;
  uint32_t rows = 0, columns = 0;
  int a_pair = 0, b_pair = 0;
  Grid grid;
};

// The same without a loop: `step` of k in each launch, which adds to those before (gemm_simd_unrolled.comp). The last
// n_rest columns and the first k_rest of k are products of their own.
struct SimdUnrolledPlan {
  static constexpr bool kHasNoEpilogue = true;
  uint32_t rows = 0, step = 0, n_rest = 0, k_rest = 0;
  int a_unit = 0, b_unit = 0;
  bool out_pair = false;
  Grid grid;
};

// At most 4 rows, any strides (gemv.comp).
struct GemvPlan {
  bool b_k_major = false;
  Grid grid;
};

// Few rows, 16-byte loads: `rows` at a time, `slice` invocations share the k of a column (gemv_wide.comp).
struct GemvWidePlan {
  uint32_t rows = 0, slice = 0;
  bool b_k_major = false;
  Grid grid;
};

// 2 to 16 rows on matrix units; a lane loads `wide` columns where b is n-major (gemv_coopmat.comp).
struct GemvCoopMatPlan {
  uint32_t wide = 0, local = 0;
  bool b_k_major = false;
  Grid grid;
};

// Any GPU, 64 x 64 per workgroup, any strides (gemm_simt.comp).
struct SimtPlan {
  static constexpr bool kReadsBeforeWrites = true;
  bool a_k_major = false, b_k_major = false;
  Grid grid;
};

// 128 x 128 per workgroup; vec 4: 16-byte loads and stores of float32 (gemm_simt_large.comp).
struct SimtLargePlan {
  static constexpr bool kReadsBeforeWrites = true;
  OperandPlan a, b;
  int out_vec = 0;
  Grid grid;
};

// float32 of few tiles: 8 * rows x 128 per workgroup, and k in `splits` of `k_split` (gemm_simt_splits.comp).
struct SimtSplitsPlan {
  static constexpr bool kReadsBeforeWrites = true;
  OperandPlan a, b;
  uint32_t rows = 0, splits = 0, k_split = 0;
  Grid grid;
};

// Matrix units, 16-bit operands (gemm_coopmat.comp, which explains its constants).
struct CoopMatPlan {
  enum class Fragments : uint8_t { opaque, ordered, padded };  // axis FRAGMENTS
  // The kernel's results; its float32 sums, which are the result; sums of `splits` parts, added by gemm_splits.comp.
  enum class Writes : uint8_t { result, sums, split_sums };
  Fragments fragments = Fragments::opaque;
  Writes writes = Writes::result;
  TilePlan tile;
  int mat_m = 0, mat_n = 0, local = 0;
  OperandPlan a, b;
  int c_vec = 0, out_vec = 0;
  bool odd_n = false;  // rows of out in vec8s end inside the last one
  enum class KChecks : uint8_t { none, every_step, first_step } k_checks = KChecks::none;  // loads compared with k
  bool is_ragged = false;   // m or n is no multiple of the tile, and loads are checked
  bool moves_last = false;  // m or n is none, but the last tiles begin earlier
  int line = 0, addresses = 0;
  bool pairs = false;
  bool row_classes = false;  // rows of a tile are 8 apart: rows of out may start anywhere
  uint32_t splits = 1;
  uint32_t whole = 0, share = 0;  // after `whole` tiles, workgroups share the steps of the others (share 0: no)
  double us = 0;                  // that it is expected to take on the device
  Grid grid;
};

// int8 to int32 (gemm_int8.comp). `tile_index` counts the tiles, of which one may be refuted on a device.
struct Int8Plan {
  static constexpr bool kIsComposed = true, kHasNoEpilogue = true;
  uint32_t tile_index = 0;
  CoopMatShape shape{};  // m 0: packed dot products instead of matrix units
  TilePlan tile;
  uint32_t local = 0;
  OperandPlan a, b;
  bool stores_matrices = false;  // results leave straight from the matrices
  Grid grid;
};

// float32 as pieces of 16 bits, one or two of each operand, laid along k for one product on matrix units
// (gemm_bf16x3_operand.comp, gemm_coopmat.comp).
struct Bf16x3Plan {
  static constexpr bool kIsComposed = true;
  DType pieces = DType::bf16;
  bool two_pieces = false;
  bool product_transposed = false;
  CoopMatPlan product;
};

// Products that are made of other products, each planned by itself.
struct LongKPlan {  // `slice` of k at a time, where one invocation may not walk all of it
  static constexpr bool kIsComposed = true;
  int64_t slice = 0;
};
struct DenseOutPlan {  // into a dense temporary: out's or c's strides take more than 31 bits
  static constexpr bool kIsComposed = true;
};
struct WidenedPlan {  // of operands converted to float32, where no kernel makes float32 of 16-bit ones
  static constexpr bool kIsComposed = true;
};

// A product of copies in rows of whole vec8s. Operands that stay lie as before.
struct AlignedRowsPlan {
  static constexpr bool kIsComposed = true;
  bool a = false, b = false, out = false;  // which are copied
  bool a_k_major = false, b_k_major = false;
  enum class Halves : uint8_t { none, batches, rows, columns } halves = Halves::none;  // two products instead
};

// Whole rounds of large tiles, and the other rows (or columns) as a product of smaller ones. Each is planned by itself.
struct PartsPlan {
  static constexpr bool kIsComposed = true;
  bool of_rows = true;
  uint32_t first = 0;  // rows or columns
};

struct GemmPlan {
  bool transposed = false;  // computes out^T = b^T a^T
  std::variant<ScalarPlan, SimdPlan, SimdUnrolledPlan, GemvPlan, GemvWidePlan, GemvCoopMatPlan, SimtPlan, SimtLargePlan,
               SimtSplitsPlan, CoopMatPlan, Int8Plan, Bf16x3Plan, LongKPlan, DenseOutPlan, WidenedPlan, AlignedRowsPlan,
               PartsPlan>
      kernel;
  // Activation and residual: there are none; in the product's kernel; by kernels of their own, on out.
  enum class Epilogue : uint8_t { none, fused, apart } epilogue = Epilogue::none;

  bool is_composed() const {
    return std::visit([]<class P>(const P&) { return requires { P::kIsComposed; }; }, kernel);
  }
  bool has_no_epilogue() const {
    return std::visit([]<class P>(const P&) { return requires { P::kHasNoEpilogue; }; }, kernel);
  }
  bool reads_before_it_writes() const {
    return std::visit([]<class P>(const P&) { return requires { P::kReadsBeforeWrites; }; }, kernel);
  }
};

// The 16-bit dtype that matrix units would multiply for this problem; f32: none.
DType multiplied_dtype(const GemmProblem& g, const Overrides& overrides);
// The dtype of the pieces of float32.
DType piece_dtype(const Overrides& overrides);

// k > 0, and every size below 2^31.
GemmPlan gemm_plan(const DeviceProfile& profile, const MatrixUnits& units, const GemmProblem& g,
                   const Overrides& overrides);

}  // namespace aule::ops

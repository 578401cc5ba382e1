#include "ops/matmul/kernels/int8.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <vector>

#include "core/per_device.h"
#include "kernels_matmul.gen.h"
#include "ops/coopmat/layout.h"
#include "ops/matmul/launch.h"
#include "ops/matmul/tuning_table.h"
#include "ops/tensor/private_stream.h"
#include "runtime/streams.h"

namespace aule::ops {
namespace {

// Component types of Vulkan, as Caps keeps them.
constexpr uint8_t kSint8 = 3, kSint32 = 5;

// The last one is that of packed dot products.
constexpr std::array<TilePlan, 5> kTiles = {
    {{128, 256, 64, 64, 64}, {128, 128, 64, 64, 64}, {64, 64, 32, 32, 64}, {32, 32, 16, 16, 32}, {64, 64, 64, 64, 64}}};
constexpr uint32_t kDotProducts = kTiles.size() - 1;

// `vec`: bytes of one load; 0: the kernel cannot read the operand.
OperandPlan classify(uint64_t address, int64_t row, int64_t k, uint32_t rows, uint32_t depth) {
  if (k == 1 || row != 1) {
    if (k != 1) return {true, 0};
    for (int vec : {16, 4})
      if (depth % vec == 0 && row % vec == 0 && address % static_cast<uint64_t>(vec) == 0) return {true, vec};
    return {true, 1};
  }
  return {false, rows % 4 == 0 && k % 4 == 0 && address % 4 == 0 ? 4 : 1};
}

// Axis MATRIX of gemm_int8.comp: bytes that matrices along k are a multiple of, 0 for packed dot products.
int matrix_axis(const CoopMatShape& shape) { return shape.m == 0 ? 0 : shape.k % 16 == 0 ? 16 : 8; }

// The constants that a tile gives, which decide the shared memory.
GemmInt8Spec tile_spec(const Int8Plan& plan) {
  const TilePlan& t = plan.tile;
  GemmInt8Spec spec{.local = plan.local, .bm = t.bm, .bn = t.bn, .wm = t.wm, .wn = t.wn, .bk = t.bk};
  if (plan.shape.m != 0) {
    spec.mat_m = plan.shape.m;
    spec.mat_n = plan.shape.n;
    spec.mat_k = plan.shape.k;
  }
  return spec;
}

// The plan's tile, of matrices of `shape` (m 0: packed dot products, by workgroups of 256), if the device has room.
std::optional<Int8Plan> tile_plan(uint32_t index, const CoopMatShape& shape, const Caps& caps) {
  Int8Plan plan;
  plan.tile_index = index;
  plan.shape = shape;
  plan.tile = kTiles[index];
  plan.local = 256;
  if (shape.m == 0) {
    if (!caps.int_dot_product || caps.max_workgroup_invocations < plan.local) return std::nullopt;
    return plan;
  }
  const TilePlan& t = plan.tile;
  plan.local = (t.bm / t.wm) * (t.bn / t.wn) * caps.subgroup_size;
  if (plan.local > caps.max_workgroup_invocations || t.wm % shape.m != 0 || t.wn % shape.n != 0 || t.bk % shape.k != 0)
    return std::nullopt;
  if (t.wm * t.wn > 128 * caps.subgroup_size) return std::nullopt;  // registers
  if (t.bm * t.bk / 16 % plan.local != 0 || t.bn * t.bk / 16 % plan.local != 0) return std::nullopt;
  if (shared_bytes(kernel::gemm_int8(matrix_axis(shape)), tile_spec(plan)) > caps.shared_bytes) return std::nullopt;
  return plan;
}

// The largest shape for int8; null: none.
const CoopMatShape* shape_of(const Caps& caps) {
  const CoopMatShape* best = nullptr;
  if (!caps.cooperative_matrix || !caps.int8) return best;
  for (const CoopMatShape& s : caps.coopmat_shapes) {
    if (s.a_type != kSint8 || s.b_type != kSint8 || s.c_type != kSint32 || s.result_type != kSint32) continue;
    if (s.k % 8 != 0) continue;
    if (best == nullptr || s.m * s.n * s.k > best->m * best->n * best->k) best = &s;
  }
  return best;
}

// The operands and the result of `g`, which the plan's tile is to make.
bool set_operands(Int8Plan& plan, const GemmProblem& g) {
  const TilePlan& t = plan.tile;
  plan.a = classify(g.a.address, g.a.row, g.a.col, g.m, g.k);
  plan.b = classify(g.b.address, g.b.col, g.b.row, g.n, g.k);
  plan.stores_matrices = plan.shape.m != 0 && g.out.col == 1 && g.out.row % 4 == 0 && g.out.address % 16 == 0 &&
                         g.m % t.bm == 0 && g.n % t.bn == 0;
  plan.grid = linear_grid(uint64_t{ceil_div(g.m, t.bm)} * ceil_div(g.n, t.bn));
  return plan.a.vec != 0 && plan.b.vec != 0;
}

void launch_int8(CommandStream& stream, const GemmProblem& g, const Int8Plan& plan, const Args& args) {
  GemmInt8Spec spec = tile_spec(plan);
  spec.a_mn_major = !plan.a.k_major;
  spec.b_mn_major = !plan.b.k_major;
  spec.a_vec = plan.a.vec;
  spec.b_vec = plan.b.vec;
  spec.stores_matrices = plan.stores_matrices;
  launch(stream, kernel::gemm_int8(matrix_axis(plan.shape)), spec, operands_of<GemmInt8Params>(g), args, plan.grid);
}

// Whether the kernel is exact on this device: whole tiles of operands along k, ragged ones of operands across. Drivers'
// matrix units are young, and an integer product has no tolerance to show it.
bool is_exact(int device, Int8Plan plan) {
  const TilePlan& t = plan.tile;
  bool exact = true;
  on_private_stream(device, [&] {
    auto& stream = current(device);
    const auto options =
        at::TensorOptions().device(at::Device(at::kPrivateUse1, static_cast<c10::DeviceIndex>(device)));
    for (const bool across : {false, true}) {
      const uint32_t m = across ? t.bm - 8 : t.bm, n = across ? t.bn + 12 : t.bn, k = across ? t.bk + 20 : 2 * t.bk;
      std::vector<int8_t> a(size_t{m} * k), b(size_t{n} * k);
      uint32_t state = 1;
      const auto fill_with_noise = [&](std::vector<int8_t>& v) {
        for (int8_t& x : v) x = static_cast<int8_t>((state = state * 1664525u + 1013904223u) >> 24);
      };
      fill_with_noise(a);
      fill_with_noise(b);
      const at::Tensor x = at::empty({m, k}, options.dtype(at::kChar)), y = at::empty({n, k}, options.dtype(at::kChar)),
                       out = at::empty({m, n}, options.dtype(at::kInt));
      upload_bytes(stream, address_of(x), a.data(), a.size());
      upload_bytes(stream, address_of(y), b.data(), b.size());
      // Clears an earlier result, with which a kernel that writes nothing would pass.
      fill_words(stream, address_of(out), uint64_t{4} * m * n, 0x7f7f7f7f);
      TensorArgs args;
      GemmProblem g;
      g.m = m;
      g.n = n;
      g.k = k;
      g.in = DType::i8;
      g.result = DType::i32;
      // Across: the same bytes as [k, m] and [k, n].
      g.a = {args.read(x), 0, across ? 1 : int64_t{k}, across ? int64_t{m} : 1};
      g.b = {args.read(y), 0, across ? int64_t{n} : 1, across ? 1 : int64_t{k}};
      g.out = {args.write(out), 0, n, 1};
      std::vector<int32_t> result(size_t{m} * n);
      exact = exact && set_operands(plan, g);
      if (exact) launch_int8(stream, g, plan, args);
      download_bytes(stream, result.data(), address_of(out), result.size() * 4);
      for (uint32_t i = 0; i < m && exact; ++i) {
        for (uint32_t j = 0; j < n; ++j) {
          int32_t sum = 0;
          for (uint32_t l = 0; l < k; ++l)
            sum += int32_t{a[across ? l * m + i : i * k + l]} * b[across ? l * n + j : j * k + l];
          exact = exact && sum == result[i * n + j];
        }
      }
    }
  });
  return exact;
}

// The answer of a device about a tile.
struct Answer {
  std::once_flag asked;
  std::atomic<bool> refuted{false};
};
std::array<Answer, kTiles.size()>& answers_of(int device) {
  static const PerDevice<std::array<Answer, kTiles.size()>> answers;
  return answers[device];
}

}  // namespace

uint32_t refuted_int8_tiles(int device) {
  uint32_t refuted = 0;
  for (uint32_t i = 0; i < kTiles.size(); ++i)
    if (answers_of(device)[i].refuted.load(std::memory_order_relaxed)) refuted |= 1u << i;
  return refuted;
}

bool is_exact_tile(int device, const Int8Plan& plan) {
  Answer& answer = answers_of(device)[plan.tile_index];
  std::call_once(answer.asked, [&] {
    const runtime::Uninterrupted whole;  // other threads wait here for the answer
    answer.refuted = !is_exact(device, plan);
  });
  return !answer.refuted;
}

std::optional<GemmPlan> plan_int8(const DeviceProfile& profile, const MatrixUnits& units, const GemmProblem& problem) {
  if (problem.in != DType::i8 || problem.result != DType::i32) return std::nullopt;
  if (problem.has_c || !problem.alpha_is_one || problem.batches != 1) return std::nullopt;
  if (profile.software_simd()) return std::nullopt;  // gemm_scalar.comp has no barrier
  // Rows of the result should be contiguous.
  const bool transposed = problem.out.col != 1 && problem.out.row == 1;
  const GemmProblem g = transposed ? problem.transposed() : problem;
  const auto planned = [&](uint32_t index, const CoopMatShape& shape) -> std::optional<GemmPlan> {
    std::optional<Int8Plan> plan = tile_plan(index, shape, profile);
    if ((units.int8_refuted >> index & 1) != 0 || !plan || !set_operands(*plan, g)) return std::nullopt;
    return GemmPlan{transposed, *plan};
  };
  if (const CoopMatShape* shape = shape_of(profile)) {
    // The largest tile that fills the device.
    const uint64_t enough = product_tuning(profile).workgroups_per_round;
    uint32_t smallest = 0;
    for (uint32_t i = 0; i < kDotProducts; ++i)
      if (tile_plan(i, *shape, profile)) smallest = i;
    for (uint32_t i = 0; i < kDotProducts; ++i) {
      const TilePlan& t = kTiles[i];
      if (i != smallest && uint64_t{ceil_div(g.m, t.bm)} * ceil_div(g.n, t.bn) < enough) continue;
      if (auto plan = planned(i, *shape)) return plan;
    }
  }
  return planned(kDotProducts, {});
}

void launch_int8(const GemmCall& call, const Int8Plan& plan) {
  launch_int8(call.stream(), call.problem, plan, call.args);
}

}  // namespace aule::ops

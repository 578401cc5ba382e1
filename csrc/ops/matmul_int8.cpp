#include "ops/matmul_int8.h"

#include <algorithm>
#include <array>

#include "kernels_matmul.gen.h"
#include "ops/matmul_params.h"

namespace aule::ops {
namespace {

// Component types of Vulkan, as Caps keeps them.
constexpr uint8_t kSint8 = 3, kSint32 = 5;

// Rows and columns of out per workgroup and per subgroup, and the step along k.
struct Tile {
  uint32_t bm, bn, wm, wn, bk;
};
constexpr std::array<Tile, 4> kTiles = {
    {{128, 256, 64, 64, 64}, {128, 128, 64, 64, 64}, {64, 64, 32, 32, 64}, {32, 32, 16, 16, 32}}};
constexpr Tile kPortable{64, 64, 64, 64, 64};
constexpr uint64_t kEnough = 128;  // workgroups; Vulkan does not tell how many cores a device has

// Along k or across, and the bytes of one load.
struct Operand {
  int lies, vec;
};
Operand classify(uint64_t address, int64_t row, int64_t k, uint32_t rows, uint32_t depth) {
  if (k == 1 || row != 1) {
    if (k != 1) return {0, 0};
    for (int vec : {16, 4})
      if (depth % vec == 0 && row % vec == 0 && address % static_cast<uint64_t>(vec) == 0) return {0, vec};
    return {0, 1};
  }
  return {1, rows % 4 == 0 && k % 4 == 0 && address % 4 == 0 ? 4 : 1};
}

bool fits(const Tile& t, const CoopMatShape& shape, const Caps& caps, bool direct) {
  const uint32_t subgroups = (t.bm / t.wm) * (t.bn / t.wn), threads = subgroups * caps.subgroup_size;
  if (threads > caps.max_workgroup_invocations || t.wm % shape.m != 0 || t.wn % shape.n != 0 || t.bk % shape.k != 0)
    return false;
  if (t.bm * t.bk / 16 % threads != 0 || t.bn * t.bk / 16 % threads != 0) return false;
  const uint32_t bytes = (t.bm + t.bn) * (t.bk + 16) + (direct ? 4 : subgroups * shape.m * shape.n * 4);
  return bytes <= caps.max_shared_bytes;
}

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

}  // namespace

bool gemm_of_int8(const GemmProblem& problem, const TensorArgs& args, const at::Tensor& out) {
  if (problem.in != DType::i8 || problem.result != DType::i32 || problem.has_c || problem.batches != 1) return false;
  const Caps& caps = caps_of(out);
  if (caps.kind == Caps::Kind::cpu && caps.subgroup_shuffle) return false;  // gemm_scalar.comp has no barrier
  // Rows of the result should be contiguous.
  const GemmProblem g = problem.out.col != 1 && problem.out.row == 1 ? problem.transposed() : problem;
  const Operand a = classify(g.a.address, g.a.row, g.a.col, g.m, g.k),
                b = classify(g.b.address, g.b.col, g.b.row, g.n, g.k);
  if (a.vec == 0 || b.vec == 0) return false;
  const auto p = fill<GemmInt8Params>(g);
  const auto run = [&](int matrix, const CoopMatShape& shape, const Tile& t, uint32_t threads, int direct) {
    launch(current(out), kernel::gemm_int8(matrix),
           Spec{shape.m, shape.n, shape.k, threads, t.bm, t.bn, t.wm, t.wn, t.bk, a.lies, b.lies, a.vec, b.vec, direct},
           p, args, linear_grid(uint64_t{ceil_div(g.m, t.bm)} * ceil_div(g.n, t.bn)));
    return true;
  };
  if (const CoopMatShape* shape = shape_of(caps)) {
    const Tile* best = nullptr;
    bool best_direct = false;
    for (const Tile& t : kTiles) {
      const bool direct =
          g.out.col == 1 && g.out.row % 4 == 0 && g.out.address % 16 == 0 && g.m % t.bm == 0 && g.n % t.bn == 0;
      if (!fits(t, *shape, caps, direct)) continue;
      best = &t;
      best_direct = direct;
      if (uint64_t{ceil_div(g.m, t.bm)} * ceil_div(g.n, t.bn) >= kEnough) break;  // the largest that fills the device
    }
    if (best != nullptr)
      return run(shape->k % 16 == 0 ? 16 : 8, *shape, *best,
                 best->bm / best->wm * (best->bn / best->wn) * caps.subgroup_size, best_direct);
  }
  if (!caps.int_dot_product || caps.max_workgroup_invocations < 256) return false;
  return run(0, CoopMatShape{16, 16, 32, 0, 0, 0, 0}, kPortable, 256, 0);
}

}  // namespace aule::ops

#include "ops/matmul/int8.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <vector>

#include "core/per_device.h"
#include "kernels_matmul.gen.h"
#include "ops/coopmat/layout.h"
#include "ops/matmul/params.h"

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

// Axis MATRIX of gemm_int8.comp: bytes that matrices along k are a multiple of, 0 for packed dot products.
int matrix_axis(const CoopMatShape* shape) { return shape == nullptr ? 0 : shape->k % 16 == 0 ? 16 : 8; }

// The constants that a tile gives, which decide the shared memory. Packed dot products take workgroups of 256.
GemmInt8Spec tile_spec(const Tile& t, const CoopMatShape* shape, const Caps& caps) {
  GemmInt8Spec spec{.threads = 256, .bm = t.bm, .bn = t.bn, .wm = t.wm, .wn = t.wn, .bk = t.bk};
  if (shape != nullptr) {
    spec.mat_m = shape->m;
    spec.mat_n = shape->n;
    spec.mat_k = shape->k;
    spec.threads = t.bm / t.wm * (t.bn / t.wn) * caps.subgroup_size;
  }
  return spec;
}

bool fits(const Tile& t, const CoopMatShape& shape, const Caps& caps) {
  const uint32_t subgroups = (t.bm / t.wm) * (t.bn / t.wn), threads = subgroups * caps.subgroup_size;
  if (threads > caps.max_workgroup_invocations || t.wm % shape.m != 0 || t.wn % shape.n != 0 || t.bk % shape.k != 0)
    return false;
  if (t.wm * t.wn > 128 * caps.subgroup_size) return false;  // registers
  if (t.bm * t.bk / 16 % threads != 0 || t.bn * t.bk / 16 % threads != 0) return false;
  return shared_bytes(kernel::gemm_int8(matrix_axis(&shape)), tile_spec(t, &shape, caps)) <= caps.max_shared_bytes;
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

// Results leave straight from the matrices.
bool is_direct(const GemmProblem& g, const Tile& t) {
  return g.out.col == 1 && g.out.row % 4 == 0 && g.out.address % 16 == 0 && g.m % t.bm == 0 && g.n % t.bn == 0;
}

// Multiplies by tiles of `t`; shape null: packed dot products. False when the kernel does not read the operands.
bool run(CommandStream& stream, const Caps& caps, const GemmProblem& g, const CoopMatShape* shape, const Tile& t,
         const Args& args) {
  const Operand a = classify(g.a.address, g.a.row, g.a.col, g.m, g.k),
                b = classify(g.b.address, g.b.col, g.b.row, g.n, g.k);
  if (a.vec == 0 || b.vec == 0) return false;
  GemmInt8Spec spec = tile_spec(t, shape, caps);
  spec.a_lies = a.lies;
  spec.b_lies = b.lies;
  spec.a_vec = a.vec;
  spec.b_vec = b.vec;
  spec.direct = shape != nullptr && is_direct(g, t);
  launch(stream, kernel::gemm_int8(matrix_axis(shape)), spec, fill<GemmInt8Params>(g), args,
         linear_grid(uint64_t{ceil_div(g.m, t.bm)} * ceil_div(g.n, t.bn)));
  return true;
}

// Whether the kernel is exact on this device: whole tiles of operands along k, ragged ones of operands across. Drivers'
// matrix units are young, and an integer product has no tolerance to show it.
bool is_exact(int device, const CoopMatShape* shape, const Tile& t) {
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
      // No earlier result may stand there: a kernel that writes nothing would pass.
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
      exact = exact && run(stream, caps_of(device), g, shape, t, args);
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

// Asked once per device and tile; the last is that of packed dot products.
bool is_known_exact(int device, size_t index, const CoopMatShape* shape, const Tile& t) {
  struct Answer {
    std::once_flag asked;
    bool exact = false;
  };
  static const PerDevice<std::array<Answer, kTiles.size() + 1>> answers;
  Answer& answer = answers[device][index];
  std::call_once(answer.asked, [&] { answer.exact = is_exact(device, shape, t); });
  return answer.exact;
}

}  // namespace

bool gemm_of_int8(const GemmProblem& problem, const TensorArgs& args, const at::Tensor& out) {
  if (problem.in != DType::i8 || problem.result != DType::i32 || problem.has_c || problem.batches != 1) return false;
  const Caps& caps = caps_of(out);
  if (caps.is_software_simd()) return false;  // gemm_scalar.comp has no barrier
  // Rows of the result should be contiguous.
  const GemmProblem g = problem.out.col != 1 && problem.out.row == 1 ? problem.transposed() : problem;
  const auto device = static_cast<int>(out.get_device());
  if (const CoopMatShape* shape = shape_of(caps)) {
    // The largest tile that fills the device.
    for (size_t i = 0; i < kTiles.size(); ++i) {
      const Tile& t = kTiles[i];
      const bool smallest = std::none_of(kTiles.begin() + i + 1, kTiles.end(),
                                         [&](const Tile& other) { return fits(other, *shape, caps); });
      if (!fits(t, *shape, caps)) continue;
      if (!smallest && uint64_t{ceil_div(g.m, t.bm)} * ceil_div(g.n, t.bn) < kEnough) continue;
      if (is_known_exact(device, i, shape, t) && run(current(out), caps, g, shape, t, args)) return true;
    }
  }
  return caps.int_dot_product && caps.max_workgroup_invocations >= 256 &&
         is_known_exact(device, kTiles.size(), nullptr, kPortable) &&
         run(current(out), caps, g, nullptr, kPortable, args);
}

}  // namespace aule::ops

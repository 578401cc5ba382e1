#include "ops/matrix_layout.h"

#include <ATen/ops/empty.h>

#include <array>
#include <mutex>

#include "kernels_matrix.gen.h"
#include "ops/tensor_arg.h"
#include "runtime/streams.h"

namespace aule::ops {
namespace {

// Component types of Vulkan, cut to 8 bits as Caps keeps them.
constexpr auto kFloat16 = uint8_t{0}, kFloat32 = uint8_t{1}, kBFloat16 = static_cast<uint8_t>(1000141000u);

constexpr int kMaxLanes = 128, kMaxElements = 8;
struct Probe {
  uint32_t a_length, b_length, acc_length, subgroup;
  uint32_t index[3][kMaxLanes][kMaxElements];  // A, B, accumulator
};

// The largest square k x n that an accumulator can be handed on in.
void choose_shape(const Caps& caps, DType dtype, MatrixLayout& out) {
  const uint8_t type = dtype == DType::f16 ? kFloat16 : kBFloat16;
  for (const CoopMatShape& s : caps.coopmat_shapes) {
    if (s.a_type != type || s.b_type != type || s.c_type != kFloat32 || s.result_type != kFloat32) continue;
    if (s.n != s.k || s.m > 16 || s.n > 16 || s.n % 8 != 0) continue;
    if (static_cast<int>(s.m * s.n) <= out.m * out.n) continue;
    out.m = static_cast<int>(s.m);
    out.n = static_cast<int>(s.n);
  }
  out.usable = out.m != 0;
}

Probe run_probe(int device, DType dtype, const MatrixLayout& shape, int local) {
  Probe probe{};
  on_private_stream(device, [&] {
    const at::Tensor out = at::empty({static_cast<int64_t>(sizeof(Probe) / 4)},
                                     at::TensorOptions().dtype(at::kInt).device(
                                         at::Device(at::kPrivateUse1, static_cast<c10::DeviceIndex>(device))));
    auto& stream = current(device);
    TensorArgs args;
    MatrixLayoutParams p{};
    p.out_ = args.write(out);
    launch(stream, kernel::matrix_layout(dtype), Spec{shape.m, shape.n, local}, p, args, Grid{});
    download_bytes(stream, &probe, address_of(out), sizeof(Probe));
  });
  return probe;
}

// Splits the accumulator's index table into a part of the lane and a part of the element; false when it is not such a
// sum or a row does not stay within an aligned group of lanes.
bool read_layout(const Probe& probe, MatrixLayout& out) {
  const auto lanes = static_cast<int>(probe.subgroup);
  const auto elements = static_cast<int>(probe.acc_length);
  if (lanes < 1 || lanes > kMaxLanes || elements < 1 || elements > kMaxElements || elements * lanes != out.m * out.n)
    return false;
  const auto row = [&](int lane, int e) { return static_cast<int>(probe.index[2][lane][e] / 16); };
  const auto col = [&](int lane, int e) { return static_cast<int>(probe.index[2][lane][e] % 16); };
  const int row0 = row(0, 0), col0 = col(0, 0);
  int div = 1;
  while (div < lanes && row(div, 0) == row0) ++div;
  out.lane_div = div;
  out.lane_row = div < lanes ? row(div, 0) - row0 : 0;
  out.lane_col = div > 1 ? col(1, 0) - col0 : 0;
  if ((div & (div - 1)) != 0 || row0 != 0 || col0 != 0 || out.lane_row < 0 || out.lane_col < 0) return false;
  int slot_row[kMaxElements];
  for (int e = 0; e < elements; ++e) {
    const int r = row(0, e), c = col(0, e);
    out.rows |= static_cast<uint32_t>(r) << (4 * e);
    out.cols |= static_cast<uint32_t>(c) << (4 * e);
    int slot = 0;
    while (slot < out.slot_count && slot_row[slot] != r) ++slot;
    if (slot == out.slot_count) slot_row[out.slot_count++] = r;
    out.slots |= static_cast<uint32_t>(slot) << (4 * e);
  }
  for (int lane = 0; lane < lanes; ++lane) {
    for (int e = 0; e < elements; ++e) {
      if (row(lane, e) != lane / div * out.lane_row + row(0, e) ||
          col(lane, e) != lane % div * out.lane_col + col(0, e))
        return false;
    }
  }
  // A lane's rows are equal runs of its elements: kernels count on it.
  for (int e = 0; e < elements; ++e) {
    if (elements % out.slot_count != 0 ||
        static_cast<int>(out.slots >> (4 * e) & 15) != e / (elements / out.slot_count))
      return false;
  }
  for (int slot = 0; slot < out.slot_count; ++slot)
    out.slot_rows |= static_cast<uint32_t>(slot_row[slot]) << (4 * slot);
  out.elements = elements;
  return true;
}

// Whether an accumulator becomes an A operand by copying elements within a lane.
bool read_hand_over(const Probe& probe, MatrixLayout& out) {
  if (probe.a_length != probe.acc_length) return false;
  const auto lanes = static_cast<int>(probe.subgroup);
  const int elements = out.elements;
  for (int e = 0; e < elements; ++e) {
    int match = -1;
    for (int a = 0; a < elements; ++a) {
      if (probe.index[0][0][a] == probe.index[2][0][e]) match = a;
    }
    if (match < 0) return false;
    for (int lane = 0; lane < lanes; ++lane) {
      if (probe.index[0][lane][match] != probe.index[2][lane][e]) return false;
    }
    out.a_elem |= static_cast<uint32_t>(match) << (4 * e);
  }
  out.b_is_a_transposed = out.m == out.n && probe.b_length == probe.a_length;
  for (int lane = 0; lane < lanes && out.b_is_a_transposed; ++lane) {
    for (int e = 0; e < elements; ++e) {
      const uint32_t in_a = probe.index[0][lane][e], in_b = probe.index[1][lane][e];
      if (in_b != in_a % 16 * 16 + in_a / 16) out.b_is_a_transposed = false;
    }
  }
  return true;
}

MatrixLayout find_layout(int device, DType dtype) {
  MatrixLayout out;
  const Caps& caps = caps_of(device);
  if (!caps.cooperative_matrix || caps.subgroup_size == 0 || caps.subgroup_size > kMaxLanes) return out;
  if (dtype == DType::f16 ? !caps.float16 : !caps.bfloat16) return out;
  choose_shape(caps, dtype, out);
  if (!out.usable) return out;
  Probe probe = run_probe(device, dtype, out, static_cast<int>(caps.subgroup_size));
  out.cuts = (probe.subgroup & 65536) != 0;
  probe.subgroup &= 65535;
  out.subgroup = static_cast<int>(probe.subgroup);
  MatrixLayout known = out;
  known.known = true;
  // Without shuffles a known layout is of no use.
  if (probe.subgroup != caps.subgroup_size || !caps.subgroup_shuffle || !read_layout(probe, known)) return out;
  MatrixLayout handed = known;
  handed.hand_over = true;
  return read_hand_over(probe, handed) ? handed : known;
}

}  // namespace

void on_private_stream(int device, const std::function<void()>& body) {
  const auto before = runtime::exchange_stream(runtime::private_stream(static_cast<c10::DeviceIndex>(device)));
  try {
    body();
  } catch (...) {
    runtime::exchange_stream(before);
    throw;
  }
  runtime::exchange_stream(before);
}

const MatrixLayout& matrix_layout(int device, DType dtype) {
  static std::array<std::array<MatrixLayout, 2>, 64> layouts;
  static std::array<std::array<std::once_flag, 2>, 64> found;
  const size_t type = dtype == DType::f16 ? 0 : 1, index = static_cast<size_t>(device);
  std::call_once(found.at(index)[type], [&] { layouts.at(index)[type] = find_layout(device, dtype); });
  return layouts.at(index)[type];
}

}  // namespace aule::ops

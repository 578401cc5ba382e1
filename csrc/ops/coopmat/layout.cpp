#include "ops/coopmat/layout.h"

#include <ATen/ops/empty.h>

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <mutex>
#include <utility>

#include "core/per_device.h"
#include "kernels_coopmat.gen.h"
#include "ops/tensor/private_stream.h"
#include "ops/tensor/tensor_arg.h"
#include "runtime/streams.h"

namespace aule::ops {
namespace {

// Component types of Vulkan, cut to 8 bits as Caps keeps them.
constexpr auto kFloat16 = uint8_t{0}, kFloat32 = uint8_t{1}, kBFloat16 = static_cast<uint8_t>(1000141000u);

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

std::vector<uint32_t> run_probe(int device, DType dtype, const MatrixLayout& shape, int local) {
  std::vector<uint32_t> words(kProbeWords);
  on_private_stream(device, [&] {
    const at::Tensor out =
        at::empty({static_cast<int64_t>(kProbeWords)}, at::TensorOptions().dtype(at::kInt).device(at::Device(
                                                           at::kPrivateUse1, static_cast<c10::DeviceIndex>(device))));
    auto& stream = current(device);
    // The memory may hold the answer for the other dtype, which a kernel that does not run would leave there.
    fill_words(stream, address_of(out), 4 * kProbeWords, 0);
    TensorArgs args;
    CoopmatLayoutParams p{};
    p.out_ = args.write(out);
    launch(stream, kernel::coopmat_layout(dtype), {.mat_m = shape.m, .mat_n = shape.n, .local = local}, p, args,
           Grid{});
    download_bytes(stream, words.data(), address_of(out), 4 * kProbeWords);
  });
  return words;
}

struct Entry {
  std::mutex mutex;
  std::atomic<bool> found{false};
  MatrixLayout layout;
  std::vector<uint32_t> stated;
};

Entry& entry_of(int device, DType dtype) {
  static const PerDevice<std::array<Entry, 2>> entries;
  return entries[device][dtype == DType::f16 ? 0 : 1];
}

MatrixLayout find_layout(int device, DType dtype, const std::vector<uint32_t>& stated) {
  const Caps& caps = caps_of(device);
  if (!caps.cooperative_matrix || caps.subgroup_size == 0 || caps.subgroup_size > kProbeLanes) return {};
  // glslang declares float16 for a bfloat16 in shared memory and in a matrix's element, so those kernels need both.
  if (!caps.float16) return {};
  if (dtype == DType::bf16 && !(caps.bfloat16 && caps.int16)) return {};
  MatrixLayout shape;
  choose_shape(caps, dtype, shape);
  if (!shape.usable) return {};
  const std::vector<uint32_t> words =
      stated.empty() ? run_probe(device, dtype, shape, static_cast<int>(caps.subgroup_size)) : stated;
  MatrixLayout layout = read_matrix_probe(words, shape.m, shape.n, caps.min_subgroup_size, caps.max_subgroup_size);
  // Without shuffles and ballots, and in subgroups of another size than kernels count with, a known layout is of no
  // use.
  if (!caps.subgroup_shuffle || !caps.subgroup_ballot || layout.subgroup != static_cast<int>(caps.subgroup_size)) {
    layout = {.usable = layout.usable,
              .m = layout.m,
              .n = layout.n,
              .subgroup = layout.subgroup,
              .truncates = layout.truncates};
  }
  return layout;
}

}  // namespace

const MatrixLayout& matrix_layout(int device, DType dtype) {
  Entry& entry = entry_of(device, dtype);
  if (!entry.found.load(std::memory_order_acquire)) {
    const runtime::Uninterrupted whole;  // with the lock
    std::lock_guard lock(entry.mutex);
    if (!entry.found.load(std::memory_order_relaxed)) {
      entry.layout = find_layout(device, dtype, entry.stated);
      entry.found.store(true, std::memory_order_release);
    }
  }
  return entry.layout;
}

void state_matrix_probe(int device, DType dtype, std::vector<uint32_t> words) {
  Entry& entry = entry_of(device, dtype);
  std::lock_guard lock(entry.mutex);
  TORCH_CHECK(!entry.found.load(), "state_matrix_probe: the layout of aule:", device, " is in use already");
  entry.stated = std::move(words);
}

}  // namespace aule::ops

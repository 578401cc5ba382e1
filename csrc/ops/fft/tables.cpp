#include "ops/fft/tables.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <numbers>
#include <tuple>
#include <utility>
#include <vector>

#include "core/per_device.h"
#include "ops/tensor/private_stream.h"
#include "ops/tensor/tensor_arg.h"
#include "runtime/streams.h"

namespace aule::ops {
namespace {

using Roots = std::vector<std::complex<double>>;

// Tables of one device by {dtype, n, core of a chirp or 0}.
struct Tables {
  std::recursive_mutex mutex;  // a chirp's table needs those of its transform
  std::map<std::tuple<at::ScalarType, uint64_t, uint64_t>, at::Tensor> all;
};

at::Tensor uploaded(int device, at::ScalarType dtype, const Roots& values) {
  const auto options =
      at::TensorOptions().dtype(dtype).device(at::Device(at::kPrivateUse1, static_cast<c10::DeviceIndex>(device)));
  const at::Tensor table = at::empty({static_cast<int64_t>(values.size())}, options);
  if (dtype == at::kComplexDouble) {
    upload_bytes(current(device), address_of(table), values.data(), values.size() * sizeof(values[0]));
  } else {
    const std::vector<std::complex<float>> rounded(values.begin(), values.end());
    upload_bytes(current(device), address_of(table), rounded.data(), rounded.size() * sizeof(rounded[0]));
  }
  return table;
}

// The table of `key`, which make() makes on a stream of its own. Any stream may read it afterwards.
template <class Make>
at::Tensor table_of(int device, at::ScalarType dtype, uint64_t n, uint64_t core, const Make& make) {
  static const PerDevice<Tables> tables;
  Tables& own = tables[device];
  const runtime::Uninterrupted whole;  // with the lock
  std::lock_guard lock(own.mutex);
  at::Tensor& table = own.all[{dtype, n, core}];
  if (table.defined()) return table;
  on_private_stream(device, [&] {
    table = make();
    float first;  // waits
    download_bytes(current(device), &first, address_of(table), sizeof(first));
  });
  return table;
}

}  // namespace

std::complex<double> root_of_unity(uint64_t e, uint64_t n) {
  // The angle is turned into the first eighth of the circle, exactly: 8 e / n eighths, and a rest below one.
  e %= n;
  const uint64_t eighth = 8 * e / n;
  const uint64_t rest = 8 * e - eighth * n;  // in eighths of 1 / n
  const bool backwards = eighth % 2 == 1;
  const double angle = std::numbers::pi / 4 * static_cast<double>(backwards ? n - rest : rest) / static_cast<double>(n);
  const uint64_t quarter = ceil_div(eighth, 2);  // of the angle's start; backwards it is the end
  const double c = std::cos(angle), s = backwards ? -std::sin(angle) : std::sin(angle);
  switch (quarter % 4) {
    case 0: return {c, -s};
    case 1: return {-s, -c};
    case 2: return {-c, s};
    default: return {s, c};
  }
}

at::Tensor roots_table(int device, at::ScalarType dtype, uint64_t n) {
  return table_of(device, dtype, n, 0, [&] {
    Roots roots;
    for (uint64_t e = 0; e < std::min(n, kFineRoots); ++e) roots.push_back(root_of_unity(e, n));
    if (n > kFineRoots)
      for (uint64_t e = 0; e < n; e += kFineRoots) roots.push_back(root_of_unity(e, n));
    return uploaded(device, dtype, roots);
  });
}

at::Tensor chirp_table(int device, at::ScalarType dtype, uint64_t n, uint64_t core,
                       const std::function<void(const at::Tensor&)>& transform) {
  return table_of(device, dtype, n, core, [&] {
    Roots values(n + core);
    for (uint64_t k = 0; k < n; ++k) {
      const std::complex<double> chirp = root_of_unity(k * k % (2 * n), 2 * n);
      values[k] = chirp;
      values[n + k] = std::conj(chirp) / static_cast<double>(core);
      if (k > 0) values[n + core - k] = values[n + k];
    }
    const at::Tensor table = uploaded(device, dtype, values);
    transform(table.narrow(0, static_cast<int64_t>(n), static_cast<int64_t>(core)));
    return table;
  });
}

}  // namespace aule::ops

// Attention over host memory for C programs. The header, torch_aule/include/aule.h, is shipped with the package.
#if defined(_WIN32)
#define AULE_API __declspec(dllexport)
#endif
#include <../torch_aule/include/aule.h>  // from csrc
#include <ATen/ops/empty_like.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mul.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include <cmath>
#include <initializer_list>
#include <limits>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

#include "core/failure.h"
#include "ops/attention/attention.h"
#include "runtime/allocator.h"
#include "runtime/device_info.h"

namespace aule::c_api {
namespace {

thread_local std::string error_text;

// An argument that does not fit, found before anything is copied.
struct InvalidShape : std::invalid_argument {
  using std::invalid_argument::invalid_argument;
};

int32_t code_of(const std::exception& error) {
  if (dynamic_cast<const InvalidShape*>(&error) != nullptr) return AULE_ERROR_INVALID_SHAPE;
  const auto* failure = dynamic_cast<const Failure*>(&error);
  if (failure == nullptr) return AULE_ERROR_UNKNOWN;
  switch (failure->kind) {
    case FailureKind::vulkan_init: return AULE_ERROR_VULKAN_INIT;
    case FailureKind::no_compute_queue: return AULE_ERROR_NO_COMPUTE_QUEUE;
    case FailureKind::out_of_memory: return AULE_ERROR_OUT_OF_MEMORY;
    case FailureKind::shader_compile: return AULE_ERROR_SHADER_COMPILE;
    case FailureKind::device_lost: return AULE_ERROR_DEVICE_LOST;
    case FailureKind::index:
    case FailureKind::missing_feature: break;
  }
  return AULE_ERROR_UNKNOWN;
}

// No exception may leave a function of C.
template <class Work>
int32_t guarded(const Work& work) noexcept {
  try {
    error_text.clear();
    const c10::InferenceMode no_gradients;
    runtime::create_device(0);
    const c10::DeviceGuard device(c10::Device(c10::kPrivateUse1, 0));
    work();
    return AULE_SUCCESS;
  } catch (const std::exception& error) {
    try {
      const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
      error_text = torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
    } catch (...) {  // no memory for the text: the code is all there is
    }
    return code_of(error);
  } catch (...) {
    return AULE_ERROR_UNKNOWN;
  }
}

template <class... Text>
void require(bool condition, const Text&... text) {
  if (!condition) throw InvalidShape(c10::str(text...));
}

// Elements of float32 of these sizes, all of which are checked.
int64_t elements(const char* function, std::initializer_list<std::pair<const char*, int64_t>> sizes) {
  int64_t count = 1;
  for (const auto& [name, size] : sizes) {
    require(size >= 0, function, ": expected ", name, " of at least 0, but got ", size);
    const int64_t most = std::numeric_limits<int64_t>::max() / static_cast<int64_t>(sizeof(float));
    require(size == 0 || count <= most / size, function, ": the sizes are too large for any memory");
    count *= size;
  }
  return count;
}

at::Tensor to_device(const float* data, at::IntArrayRef sizes) {
  const at::Tensor host = at::from_blob(const_cast<float*>(data), sizes, at::kFloat);
  return host.to(c10::Device(c10::kPrivateUse1, 0));
}

void to_host(const at::Tensor& result, float* out) { at::from_blob(out, result.sizes(), at::kFloat).copy_(result); }

bool overlap(const float* a, int64_t a_count, const float* b, int64_t b_count) {
  return a < b + b_count && b < a + a_count;
}

}  // namespace
}  // namespace aule::c_api

using namespace aule::c_api;

int32_t aule_init(void) {
  return guarded([] {});
}

void aule_shutdown(void) {
  if (!aule::runtime::device_created(0)) return;
  guarded([] {
    aule::runtime::synchronize(0);
    aule::runtime::save_pipelines(0);
    aule::runtime::empty_cache(0);
  });
}

int32_t aule_flash_attention_forward(const float* q, const float* k, const float* v, float* out, int64_t batch,
                                     int64_t heads, int64_t seq_q, int64_t seq_kv, int64_t head_dim, int32_t causal,
                                     float scale) {
  return guarded([&] {
    constexpr const char* kName = "aule_flash_attention_forward";
    const int64_t queries =
        elements(kName, {{"batch", batch}, {"heads", heads}, {"seq_q", seq_q}, {"head_dim", head_dim}});
    const int64_t keys =
        elements(kName, {{"batch", batch}, {"heads", heads}, {"seq_kv", seq_kv}, {"head_dim", head_dim}});
    require(std::isfinite(scale) && scale >= 0, kName, ": expected scale of at least 0, but got ", scale);
    require(head_dim > 0 && head_dim <= 512, kName, ": expected head_dim from 1 to 512, but got ", head_dim);
    if (queries == 0) return;
    require(q != nullptr && out != nullptr && (keys == 0 || (k != nullptr && v != nullptr)), kName,
            ": a pointer is null");
    require(!overlap(out, queries, q, queries) && !overlap(out, queries, k, keys) && !overlap(out, queries, v, keys),
            kName, ": out overlaps an operand");
    const int64_t q_sizes[] = {batch, heads, seq_q, head_dim}, k_sizes[] = {batch, heads, seq_kv, head_dim};
    const at::Tensor query = to_device(q, q_sizes), key = to_device(k, k_sizes), value = to_device(v, k_sizes);
    const at::Tensor result = at::empty_like(query);
    aule::ops::flash_attn_fwd_out(query, key, value, std::nullopt, 0.0, causal != 0,
                                  scale == 0 ? std::nullopt : std::optional<double>(scale), -1, -1, 0.0, false,
                                  std::nullopt, result);
    to_host(result, out);
  });
}

int32_t aule_test_multiply(const float* in, float* out, int64_t count) {
  return guarded([&] {
    elements("aule_test_multiply", {{"count", count}});
    require(count == 0 || (in != nullptr && out != nullptr), "aule_test_multiply: a pointer is null");
    to_host(at::mul(to_device(in, {count}), 2.0), out);
  });
}

const char* aule_get_error(void) { return error_text.c_str(); }

// Capabilities and limits of one device, as plain data. Filled by csrc/vulkan/physical.cpp. Capabilities are rows of
// core/capabilities.def; the environment variable TORCH_AULE_DISABLE=<name> turns one off, and TORCH_AULE_LIMITS lowers
// limits, so that every fallback can be tested anywhere.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace aule {

struct CoopMatShape {
  uint32_t m, n, k;
  uint8_t a_type, b_type, c_type, result_type;  // VkComponentTypeKHR
};

struct Caps {
  // identity
  std::string name, driver_name, driver_info, uuid;  // uuid: 32 hex digits
  uint32_t vendor_id = 0, device_id = 0, driver_version = 0, api_version = 0;
  enum class Kind : uint8_t { discrete, integrated, virtual_gpu, cpu, other } kind = Kind::other;
  // limits
  uint32_t subgroup_size = 0, min_subgroup_size = 0, max_subgroup_size = 0;
  uint32_t shared_bytes = 0;             // of one workgroup
  uint32_t max_push_constant_bytes = 0;  // at least 128
  uint32_t max_workgroup_invocations = 0, max_workgroup_size[3] = {0, 0, 0};
  uint32_t max_group_count[3] = {0, 0, 0};
  uint64_t max_allocation_bytes = 0, max_buffer_bytes = 0, device_heap_bytes = 0;
  uint64_t mapped_heap_bytes = 0;  // of the device's own memory that the host sees; 0: none
  float timestamp_period_ns = 0;  // 0: no timestamps
  // Some software drivers end a shader's loops without a word once one invocation has gone round them some number of
  // times, all its loops together (65535 on lavapipe of Mesa 22.3). 0: no such limit. Asked when the device is created;
  // until then a software device shows what is assumed. Planners obey the first, which TORCH_AULE_LIMITS sets (0:
  // none); the second is what the driver does.
  uint32_t max_loop_iterations = 0, driver_loop_limit = 0;
  // capabilities
#define AULE_CAPABILITY(name, lack) bool name = false;
#include "core/capabilities.def"
  std::vector<CoopMatShape> coopmat_shapes;

  // The processor itself: a workgroup runs on one core, a subgroup is its vector, shared memory is memory like any
  // other.
  bool is_software() const { return kind == Kind::cpu; }
  // Such a device, where lanes can pass values without a barrier, which is slow there.
  bool software_simd() const { return is_software() && subgroup_shuffle; }
};

// Bits that a shader variant may ask for with `#pragma aule feature <name>`.
namespace feature {
enum class Index : uint32_t {
#define AULE_CAPABILITY(name, lack) name,
#include "core/capabilities.def"
};
#define AULE_CAPABILITY(name, lack) inline constexpr uint32_t name = 1u << static_cast<uint32_t>(Index::name);
#include "core/capabilities.def"
}  // namespace feature

inline uint32_t feature_bits(const Caps& caps) {
  uint32_t bits = 0;
#define AULE_CAPABILITY(name, lack) bits |= caps.name ? feature::name : 0;
#include "core/capabilities.def"
  return bits;
}

}  // namespace aule

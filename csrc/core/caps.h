// What one device can do, as plain data. Filled by csrc/vulkan/device.cpp; each bit can be turned off
// by an environment variable AULE_DISABLE_<FIELD IN UPPER CASE>=1, so that every fallback can be tested anywhere.
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
  uint32_t max_shared_bytes = 0;         // shared memory of one workgroup
  uint32_t max_push_constant_bytes = 0;  // at least 128
  uint32_t max_workgroup_invocations = 0, max_workgroup_size[3] = {0, 0, 0};
  uint32_t max_group_count[3] = {0, 0, 0};
  uint64_t max_allocation_bytes = 0, max_buffer_bytes = 0, device_heap_bytes = 0;
  float timestamp_period_ns = 0;  // 0: no timestamps
  // Some software drivers end a shader's loops without a word once one invocation has gone round them so many times,
  // all its loops together (65535 on lavapipe of Mesa 22.3). 0: no such limit. Asked when the device is created; until
  // then a software device shows what is assumed. Planners obey the first, which AULE_MAX_LOOP_ITERATIONS=N sets (0:
  // none); the second is what the driver does.
  uint32_t max_loop_iterations = 0, driver_loop_limit = 0;
  // optional features
  bool unified_memory = false;  // every device-local byte is host visible (integrated GPU, CPU): copies need no staging
  bool float16 = false;         // 16-bit float arithmetic (16-bit storage is baseline)
  bool bfloat16 = false;        // VK_KHR_shader_bfloat16
  bool float64 = false, int8 = false, int16 = false, int_dot_product = false;
  bool float32_atomic_add = false, shared_float32_atomic_add = false;
  bool subgroup_basic = false, subgroup_arithmetic = false, subgroup_shuffle = false, subgroup_ballot = false;
  bool subgroup_size_control = false, full_subgroups = false;
  bool cooperative_matrix = false, cooperative_matrix2 = false;
  std::vector<CoopMatShape> coopmat_shapes;
  bool sparse_binding = false, memory_budget = false, device_fault = false, pipeline_executable_properties = false;

  // The processor itself: a workgroup runs on one core, a subgroup is its vector, shared memory is memory like any
  // other.
  bool is_software() const { return kind == Kind::cpu; }
  // Such a device, where lanes can pass values without a barrier, which is slow there.
  bool is_software_simd() const { return is_software() && subgroup_shuffle; }
  bool is_amd() const { return vendor_id == 0x1002; }
  bool is_nvidia() const { return vendor_id == 0x10de; }
};

// Bits that a shader variant may ask for with `#pragma aule feature <name>`; compile.py knows the same names.
enum Feature : uint32_t {
  kFeatureFloat16 = 1u << 0,             // float16
  kFeatureBFloat16 = 1u << 1,            // bfloat16
  kFeatureFloat64 = 1u << 2,             // float64
  kFeatureFloat32AtomicAdd = 1u << 3,    // float32_atomic_add
  kFeatureSubgroupArithmetic = 1u << 4,  // subgroup_arithmetic
  kFeatureSubgroupShuffle = 1u << 5,     // subgroup_shuffle
  kFeatureCooperativeMatrix = 1u << 6,   // cooperative_matrix
  kFeatureCooperativeMatrix2 = 1u << 7,  // cooperative_matrix2
  kFeatureInt8 = 1u << 8,                // int8
  kFeatureIntDotProduct = 1u << 9,       // int_dot_product
};
uint32_t feature_bits(const Caps& caps);

}  // namespace aule

#include "vulkan/features.h"

#include <cctype>

#include "core/environment.h"
#include "vulkan/instance.h"

namespace aule::vulkan {
namespace {

// Baseline: every device must have these (docs: csrc/README.md).
// clang-format off: lists
#define AULE_BASELINE(X) \
  X(base.features.shaderInt64) X(v11.storageBuffer16BitAccess) X(v12.storageBuffer8BitAccess) \
  X(v12.bufferDeviceAddress) X(v12.timelineSemaphore) X(v12.scalarBlockLayout) X(v12.hostQueryReset) \
  X(v12.vulkanMemoryModel) X(v13.synchronization2) X(v13.maintenance4)
// clang-format on

}  // namespace

void FeatureChain::link(const PhysicalDevice& device) {
  void** tail = &base.pNext;
  auto add = [&tail](auto& block, VkStructureType type) {
    block.sType = type;
    *tail = &block;
    tail = &block.pNext;
  };
  base.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2;
  add(v11, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES);
  add(v12, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES);
  add(v13, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES);
  if (device.has_extension(VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME))
    add(atomic_float, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_ATOMIC_FLOAT_FEATURES_EXT);
  if (device.has_extension(VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME))
    add(cooperative_matrix, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_FEATURES_KHR);
  if (device.has_extension(VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME))
    add(cooperative_matrix2, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_COOPERATIVE_MATRIX_2_FEATURES_NV);
  if (device.has_extension(VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME))
    add(bfloat16, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SHADER_BFLOAT16_FEATURES_KHR);
  if (device.has_extension(VK_EXT_DEVICE_FAULT_EXTENSION_NAME))
    add(fault, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FAULT_FEATURES_EXT);
  if (device.has_extension(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME))
    add(executable_properties, VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR);
}

std::string read_features(const Instance& instance, PhysicalDevice& d) {
  FeatureChain f;
  f.link(d);
  instance.vk.vkGetPhysicalDeviceFeatures2(d.handle, &f.base);
  std::string missing;
#define AULE_REQUIRE(field) \
  if (!f.field)             \
    missing += (missing.empty() ? "" : ", ") + std::string(#field).substr(std::string(#field).find_last_of('.') + 1);
  AULE_BASELINE(AULE_REQUIRE)
#undef AULE_REQUIRE

  Caps& caps = d.caps;
  caps.float16 = f.v12.shaderFloat16;
  caps.float64 = f.base.features.shaderFloat64;
  caps.int8 = f.v12.shaderInt8;
  caps.int16 = f.base.features.shaderInt16;
  caps.int_dot_product = f.v13.shaderIntegerDotProduct;
  caps.float32_atomic_add = f.atomic_float.shaderBufferFloat32AtomicAdd;
  caps.shared_float32_atomic_add = f.atomic_float.shaderSharedFloat32AtomicAdd;
  caps.subgroup_size_control = f.v13.subgroupSizeControl;
  caps.full_subgroups = f.v13.computeFullSubgroups;
  caps.bfloat16 = f.bfloat16.shaderBFloat16Type;
  caps.cooperative_matrix = f.cooperative_matrix.cooperativeMatrix;
  caps.cooperative_matrix2 = caps.cooperative_matrix && f.cooperative_matrix2.cooperativeMatrixFlexibleDimensions;
  caps.sparse_binding = f.base.features.sparseBinding && f.base.features.sparseResidencyBuffer && d.sparse_queue;
  caps.memory_budget = d.has_extension(VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  caps.device_fault = f.fault.deviceFault;
  caps.pipeline_executable_properties = f.executable_properties.pipelineExecutableInfo;
  if (caps.cooperative_matrix && instance.vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR != nullptr) {
    uint32_t count = 0;
    instance.vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(d.handle, &count, nullptr);
    std::vector<VkCooperativeMatrixPropertiesKHR> rows(
        count, {VK_STRUCTURE_TYPE_COOPERATIVE_MATRIX_PROPERTIES_KHR, nullptr, 0, 0, 0, {}, {}, {}, {}, VK_FALSE, {}});
    instance.vk.vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR(d.handle, &count, rows.data());
    for (const auto& r : rows) {
      if (r.scope != VK_SCOPE_SUBGROUP_KHR) continue;
      caps.coopmat_shapes.push_back({r.MSize, r.NSize, r.KSize, static_cast<uint8_t>(r.AType),
                                     static_cast<uint8_t>(r.BType), static_cast<uint8_t>(r.CType),
                                     static_cast<uint8_t>(r.ResultType)});
    }
  }
  return missing;
}

std::vector<const char*> enable_features(const PhysicalDevice& d, FeatureChain& f) {
  const Caps& caps = d.caps;
  f.link(d);
#define AULE_ENABLE(field) f.field = VK_TRUE;
  AULE_BASELINE(AULE_ENABLE)
#undef AULE_ENABLE
  f.v12.vulkanMemoryModelDeviceScope = VK_TRUE;
  f.v12.shaderFloat16 = caps.float16;
  f.base.features.shaderFloat64 = caps.float64;
  f.v12.shaderInt8 = caps.int8;
  f.base.features.shaderInt16 = caps.int16;
  f.v13.shaderIntegerDotProduct = caps.int_dot_product;
  f.atomic_float.shaderBufferFloat32Atomics = caps.float32_atomic_add;
  f.atomic_float.shaderBufferFloat32AtomicAdd = caps.float32_atomic_add;
  f.atomic_float.shaderSharedFloat32Atomics = caps.shared_float32_atomic_add;
  f.atomic_float.shaderSharedFloat32AtomicAdd = caps.shared_float32_atomic_add;
  f.v13.subgroupSizeControl = caps.subgroup_size_control;
  f.v13.computeFullSubgroups = caps.full_subgroups;
  f.bfloat16.shaderBFloat16Type = caps.bfloat16;
  f.bfloat16.shaderBFloat16CooperativeMatrix = caps.bfloat16 && caps.cooperative_matrix;
  f.cooperative_matrix.cooperativeMatrix = caps.cooperative_matrix;
  f.cooperative_matrix2.cooperativeMatrixFlexibleDimensions = caps.cooperative_matrix2;
  f.base.features.sparseBinding = caps.sparse_binding;
  f.base.features.sparseResidencyBuffer = caps.sparse_binding;
  f.fault.deviceFault = caps.device_fault;
  f.executable_properties.pipelineExecutableInfo = caps.pipeline_executable_properties;

  std::vector<const char*> extensions;
  auto use = [&](bool wanted, const char* name) {
    if (wanted && d.has_extension(name)) extensions.push_back(name);
  };
  use(caps.memory_budget, VK_EXT_MEMORY_BUDGET_EXTENSION_NAME);
  use(true, VK_EXT_SHADER_ATOMIC_FLOAT_EXTENSION_NAME);
  use(true, VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME);
  use(true, VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME);
  use(true, VK_KHR_SHADER_BFLOAT16_EXTENSION_NAME);
  use(true, VK_EXT_DEVICE_FAULT_EXTENSION_NAME);
  use(true, VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
  use(true, "VK_KHR_portability_subset");  // Vulkan requires this if the device offers it
  return extensions;
}

// clang-format off: a list
void apply_disable_switches(Caps& caps) {
#define AULE_SWITCH(field, name) if (environment_flag("AULE_DISABLE_" name)) caps.field = false;
  AULE_SWITCH(unified_memory, "UNIFIED_MEMORY") AULE_SWITCH(float16, "FLOAT16") AULE_SWITCH(bfloat16, "BFLOAT16")
  AULE_SWITCH(float64, "FLOAT64") AULE_SWITCH(int8, "INT8") AULE_SWITCH(int16, "INT16")
  AULE_SWITCH(int_dot_product, "INT_DOT_PRODUCT") AULE_SWITCH(float32_atomic_add, "FLOAT32_ATOMIC_ADD")
  AULE_SWITCH(shared_float32_atomic_add, "SHARED_FLOAT32_ATOMIC_ADD") AULE_SWITCH(subgroup_basic, "SUBGROUP_BASIC")
  AULE_SWITCH(subgroup_arithmetic, "SUBGROUP_ARITHMETIC") AULE_SWITCH(subgroup_shuffle, "SUBGROUP_SHUFFLE")
  AULE_SWITCH(subgroup_ballot, "SUBGROUP_BALLOT") AULE_SWITCH(subgroup_size_control, "SUBGROUP_SIZE_CONTROL")
  AULE_SWITCH(full_subgroups, "FULL_SUBGROUPS") AULE_SWITCH(cooperative_matrix, "COOPERATIVE_MATRIX")
  AULE_SWITCH(cooperative_matrix2, "COOPERATIVE_MATRIX2") AULE_SWITCH(sparse_binding, "SPARSE_BINDING")
  AULE_SWITCH(memory_budget, "MEMORY_BUDGET") AULE_SWITCH(device_fault, "DEVICE_FAULT")
  AULE_SWITCH(pipeline_executable_properties, "PIPELINE_EXECUTABLE_PROPERTIES")
#undef AULE_SWITCH
  if (environment_flag("TORCH_AULE_DISABLE_COOPMAT")) caps.cooperative_matrix = false;  // another name
  if (environment_flag("AULE_DISABLE_TIMESTAMPS")) caps.timestamp_period_ns = 0;
  // A software device then takes the kernels for GPUs.
  if (environment_flag("AULE_DISABLE_CPU_KERNELS") && caps.is_software()) caps.kind = Caps::Kind::other;
  if (!caps.cooperative_matrix) {
    caps.cooperative_matrix2 = false;
    caps.coopmat_shapes.clear();
  }
}
// clang-format on

}  // namespace aule::vulkan

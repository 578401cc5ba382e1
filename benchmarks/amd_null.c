// Makes RADV's null device (Mesa's compiler for AMD GPUs without one) good enough for the extension to start on, and
// compiles single shaders there. Built and loaded by amd_statistics.py in place of the Vulkan loader.
//
// The null device has no memory types, so one is made up, of plain host memory; timelines are always where they were
// sent, and commands do nothing. One kernel's answer decides which others run: matrix_layout.comp asks where lanes keep
// the elements of a matrix. It is written here as RDNA3 has it with subgroups of 64 lanes.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vulkan/vulkan_core.h>

static PFN_vkGetInstanceProcAddr next_instance;
static PFN_vkGetDeviceProcAddr next_device;
static PFN_vkGetPhysicalDeviceMemoryProperties2 next_memory;
static PFN_vkGetBufferMemoryRequirements2 next_requirements;
static PFN_vkAllocateMemory next_allocate;
static PFN_vkCreateDevice next_create_device;
static VkDevice the_device;

static VKAPI_ATTR void VKAPI_CALL memory_properties(VkPhysicalDevice gpu, VkPhysicalDeviceMemoryProperties2* out) {
  next_memory(gpu, out);
  VkPhysicalDeviceMemoryProperties* p = &out->memoryProperties;
  memset(p, 0, sizeof *p);
  p->memoryTypeCount = p->memoryHeapCount = 1;
  p->memoryTypes[0].propertyFlags = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT | VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT |
                                    VK_MEMORY_PROPERTY_HOST_COHERENT_BIT | VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
  p->memoryHeaps[0].size = 16ull << 30;
  p->memoryHeaps[0].flags = VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
}

static VKAPI_ATTR void VKAPI_CALL memory_requirements(VkDevice device, const VkBufferMemoryRequirementsInfo2* info,
                                                      VkMemoryRequirements2* out) {
  next_requirements(device, info, out);
  out->memoryRequirements.memoryTypeBits = 1;
}

// Where buffers lie in host memory: the extension makes few, each bound to one allocation.
enum { kMost = 4096 };
static struct {
  VkDeviceMemory memory;
  char* host;
} allocations[kMost];
static struct {
  VkBuffer buffer;
  char* host;
} buffers[kMost];
static int allocation_count, buffer_count;

static VKAPI_ATTR VkResult VKAPI_CALL allocate(VkDevice device, const VkMemoryAllocateInfo* info,
                                               const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
  const VkResult result = next_allocate(device, info, callbacks, memory);
  if (result != VK_SUCCESS || allocation_count == kMost) return result;
  PFN_vkMapMemory map = (PFN_vkMapMemory)next_device(device, "vkMapMemory");
  PFN_vkUnmapMemory unmap = (PFN_vkUnmapMemory)next_device(device, "vkUnmapMemory");
  void* host = NULL;
  if (map(device, *memory, 0, VK_WHOLE_SIZE, 0, &host) != VK_SUCCESS || host == NULL) return result;
  unmap(device, *memory);
  allocations[allocation_count].memory = *memory;
  allocations[allocation_count++].host = host;
  return result;
}

static VKAPI_ATTR VkResult VKAPI_CALL bind_buffer(VkDevice device, uint32_t count, const VkBindBufferMemoryInfo* info) {
  PFN_vkBindBufferMemory2 next = (PFN_vkBindBufferMemory2)next_device(device, "vkBindBufferMemory2");
  for (uint32_t i = 0; i < count && buffer_count < kMost; ++i) {
    buffers[buffer_count].buffer = info[i].buffer;
    buffers[buffer_count].host = NULL;
    for (int k = 0; k < allocation_count; ++k)  // the last one of that handle
      if (allocations[k].memory == info[i].memory) buffers[buffer_count].host = allocations[k].host + info[i].memoryOffset;
    ++buffer_count;
  }
  return next(device, count, info);
}

// The null device's buffers all begin at the same address.
static const VkDeviceAddress kFirstAddress = 1ull << 40, kAddressStep = 1ull << 34;
static VKAPI_ATTR VkDeviceAddress VKAPI_CALL buffer_address(VkDevice device, const VkBufferDeviceAddressInfo* info) {
  (void)device;
  for (int k = buffer_count - 1; k >= 0; --k)
    if (buffers[k].buffer == info->buffer) return kFirstAddress + kAddressStep * (VkDeviceAddress)k;
  abort();
}

static char* host_of(VkDeviceAddress address) {
  const VkDeviceAddress k = (address - kFirstAddress) / kAddressStep;
  if (address < kFirstAddress || k >= (VkDeviceAddress)buffer_count || buffers[k].host == NULL) return NULL;
  return buffers[k].host + (address - kFirstAddress) % kAddressStep;
}

// struct Probe of csrc/ops/matrix_layout.cpp.
struct Probe {
  uint32_t a_length, b_length, acc_length, subgroup, index[3][128][8];
};
static VkPipeline probe_pipelines[16];
static int probe_count, probe_bound;

static VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                       const VkComputePipelineCreateInfo* info,
                                                       const VkAllocationCallbacks* callbacks, VkPipeline* pipelines) {
  PFN_vkCreateComputePipelines next = (PFN_vkCreateComputePipelines)next_device(device, "vkCreateComputePipelines");
  const VkResult result = next(device, cache, count, info, callbacks, pipelines);
  const VkSpecializationInfo* constants = info->stage.pSpecializationInfo;
  const uint32_t probe[3] = {16, 16, 64};  // its constants: rows, columns, invocations
  if (result == VK_SUCCESS && constants && constants->dataSize == sizeof probe && probe_count < 16 &&
      memcmp(constants->pData, probe, sizeof probe) == 0)
    probe_pipelines[probe_count++] = pipelines[0];
  return result;
}

static VKAPI_ATTR void VKAPI_CALL bind_pipeline(VkCommandBuffer commands, VkPipelineBindPoint point, VkPipeline pipeline) {
  (void)commands, (void)point;
  probe_bound = 0;
  for (int k = 0; k < probe_count; ++k) probe_bound |= probe_pipelines[k] == pipeline;
}

static VKAPI_ATTR void VKAPI_CALL push_constants(VkCommandBuffer commands, VkPipelineLayout layout,
                                                 VkShaderStageFlags stages, uint32_t offset, uint32_t size,
                                                 const void* values) {
  (void)commands, (void)layout, (void)stages;
  VkDeviceAddress address = 0;
  if (!probe_bound || offset != 0 || size < sizeof address) return;
  memcpy(&address, values, sizeof address);
  struct Probe* out = (struct Probe*)host_of(address);
  if (out == NULL) return;
  out->a_length = out->b_length = 16;  // both halves of a subgroup of 32, all four quarters of one of 64, hold the same
  out->acc_length = 4;
  out->subgroup = 64;
  for (uint32_t lane = 0; lane < 64; ++lane) {
    for (uint32_t e = 0; e < 8; ++e) {
      out->index[0][lane][e] = lane % 16 * 16 + e;
      out->index[1][lane][e] = e * 16 + lane % 16;
      out->index[2][lane][e] = e < 4 ? (4 * e + lane / 16) * 16 + lane % 16 : 0;
    }
  }
}

static VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice gpu, const VkDeviceCreateInfo* info,
                                                    const VkAllocationCallbacks* callbacks, VkDevice* device) {
  const VkResult result = next_create_device(gpu, info, callbacks, device);
  the_device = *device;
  return result;
}

static _Atomic uint64_t reached;

static VKAPI_ATTR VkResult VKAPI_CALL create_semaphore(VkDevice device, const VkSemaphoreCreateInfo* info,
                                                       const VkAllocationCallbacks* callbacks, VkSemaphore* semaphore) {
  (void)device, (void)info, (void)callbacks;
  *semaphore = (VkSemaphore)malloc(1);
  return VK_SUCCESS;
}
static VKAPI_ATTR void VKAPI_CALL destroy_semaphore(VkDevice device, VkSemaphore semaphore,
                                                    const VkAllocationCallbacks* callbacks) {
  (void)device, (void)callbacks;
  free((void*)semaphore);
}
static VKAPI_ATTR VkResult VKAPI_CALL submit(VkQueue queue, uint32_t count, const VkSubmitInfo2* info, VkFence fence) {
  (void)queue, (void)fence;
  for (uint32_t i = 0; i < count; ++i)
    for (uint32_t k = 0; k < info[i].signalSemaphoreInfoCount; ++k)
      if (info[i].pSignalSemaphoreInfos[k].value > reached) reached = info[i].pSignalSemaphoreInfos[k].value;
  return VK_SUCCESS;
}
static VKAPI_ATTR VkResult VKAPI_CALL counter_value(VkDevice device, VkSemaphore semaphore, uint64_t* value) {
  (void)device, (void)semaphore;
  *value = reached;
  return VK_SUCCESS;
}

// The null device falls over recorded commands. Any arguments, and 0 is VK_SUCCESS.
static uint64_t nothing(void) { return 0; }

// The way by which the host gets that answer.
static VKAPI_ATTR void VKAPI_CALL copy_buffer(VkCommandBuffer commands, VkBuffer from, VkBuffer to, uint32_t count,
                                              const VkBufferCopy* regions) {
  (void)commands;
  char *source = NULL, *target = NULL;
  for (int k = 0; k < buffer_count; ++k) {
    if (buffers[k].buffer == from) source = buffers[k].host;
    if (buffers[k].buffer == to) target = buffers[k].host;
  }
  for (uint32_t i = 0; source && target && i < count; ++i)
    if (regions[i].size <= 65536)
      memmove(target + regions[i].dstOffset, source + regions[i].srcOffset, regions[i].size);
}

static const struct {
  const char* name;
  PFN_vkVoidFunction function;
} kReplaced[] = {{"vkBindBufferMemory2", (PFN_vkVoidFunction)bind_buffer},
                 {"vkCreateComputePipelines", (PFN_vkVoidFunction)create_pipelines},
                 {"vkCmdBindPipeline", (PFN_vkVoidFunction)bind_pipeline},
                 {"vkCmdCopyBuffer", (PFN_vkVoidFunction)copy_buffer},
                 {"vkCmdPushConstants", (PFN_vkVoidFunction)push_constants},
                 {"vkGetBufferDeviceAddress", (PFN_vkVoidFunction)buffer_address},
                 {"vkCreateSemaphore", (PFN_vkVoidFunction)create_semaphore},
                 {"vkDestroySemaphore", (PFN_vkVoidFunction)destroy_semaphore},
                 {"vkQueueSubmit2", (PFN_vkVoidFunction)submit},
                 {"vkWaitSemaphores", (PFN_vkVoidFunction)nothing},
                 {"vkGetSemaphoreCounterValue", (PFN_vkVoidFunction)counter_value},
                 {"vkBeginCommandBuffer", (PFN_vkVoidFunction)nothing},
                 {"vkEndCommandBuffer", (PFN_vkVoidFunction)nothing},
                 {"vkDeviceWaitIdle", (PFN_vkVoidFunction)nothing}};

static VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL device_function(VkDevice device, const char* name) {
  PFN_vkVoidFunction found = next_device(device, name);
  for (size_t i = 0; i < sizeof kReplaced / sizeof *kReplaced; ++i)
    if (strcmp(name, kReplaced[i].name) == 0) return kReplaced[i].function;
  if (strncmp(name, "vkCmd", 5) == 0) return (PFN_vkVoidFunction)nothing;
  if (strcmp(name, "vkGetBufferMemoryRequirements2") == 0) {
    next_requirements = (PFN_vkGetBufferMemoryRequirements2)found;
    return (PFN_vkVoidFunction)memory_requirements;
  }
  if (strcmp(name, "vkAllocateMemory") == 0) {
    next_allocate = (PFN_vkAllocateMemory)found;
    return (PFN_vkVoidFunction)allocate;
  }
  return found;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL vkGetInstanceProcAddr(VkInstance instance, const char* name) {
  if (next_instance == NULL) {
    void* library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return NULL;
    next_instance = (PFN_vkGetInstanceProcAddr)dlsym(library, "vkGetInstanceProcAddr");
  }
  PFN_vkVoidFunction found = next_instance(instance, name);
  if (found == NULL) return NULL;
  if (strcmp(name, "vkGetPhysicalDeviceMemoryProperties2") == 0) {
    next_memory = (PFN_vkGetPhysicalDeviceMemoryProperties2)found;
    return (PFN_vkVoidFunction)memory_properties;
  }
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) {
    next_device = (PFN_vkGetDeviceProcAddr)found;
    return (PFN_vkVoidFunction)device_function;
  }
  if (strcmp(name, "vkCreateDevice") == 0) {
    next_create_device = (PFN_vkCreateDevice)found;
    return (PFN_vkVoidFunction)create_device;
  }
  return found;
}

// Compiles one shader on the device that the extension created, and writes "name value; name value; ..." or the reason
// why not. `subgroup` 0 leaves the size to the driver.
int aule_compile(const uint32_t* spirv, size_t bytes, const uint32_t* constants, uint32_t count, uint32_t subgroup,
                 char* out, size_t size) {
#define LOAD(name) PFN_##name name = (PFN_##name)next_device(the_device, #name)
  LOAD(vkCreateShaderModule);
  LOAD(vkDestroyShaderModule);
  LOAD(vkCreatePipelineLayout);
  LOAD(vkCreateComputePipelines);
  LOAD(vkDestroyPipeline);
  LOAD(vkGetPipelineExecutableStatisticsKHR);
#undef LOAD
  static VkPipelineLayout layout;
  if (layout == VK_NULL_HANDLE) {
    const VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, 256};
    const VkPipelineLayoutCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
                                             .pushConstantRangeCount = 1, .pPushConstantRanges = &range};
    if (vkCreatePipelineLayout(the_device, &info, NULL, &layout) != VK_SUCCESS) return -1;
  }
  const VkShaderModuleCreateInfo module_info = {.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
                                                .codeSize = bytes, .pCode = spirv};
  VkShaderModule module;
  if (vkCreateShaderModule(the_device, &module_info, NULL, &module) != VK_SUCCESS) return -1;
  VkSpecializationMapEntry entries[64];
  for (uint32_t i = 0; i < count && i < 64; ++i) entries[i] = (VkSpecializationMapEntry){i, 4 * i, 4};
  const VkSpecializationInfo specialization = {count, entries, 4 * count, constants};
  const VkPipelineShaderStageRequiredSubgroupSizeCreateInfo required = {
      .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
      .requiredSubgroupSize = subgroup};
  const VkComputePipelineCreateInfo info = {
      .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
      .flags = VK_PIPELINE_CREATE_DISPATCH_BASE | VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR,
      .stage = {.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .pNext = subgroup ? &required : NULL,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module,
                .pName = "main",
                .pSpecializationInfo = count ? &specialization : NULL},
      .layout = layout};
  VkPipeline pipeline;
  const VkResult result = vkCreateComputePipelines(the_device, VK_NULL_HANDLE, 1, &info, NULL, &pipeline);
  vkDestroyShaderModule(the_device, module, NULL);
  if (result != VK_SUCCESS) return result;
  const VkPipelineExecutableInfoKHR executable = {.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR,
                                                  .pipeline = pipeline};
  VkPipelineExecutableStatisticKHR rows[64];
  uint32_t found = 64;
  for (int i = 0; i < 64; ++i)
    rows[i] = (VkPipelineExecutableStatisticKHR){.sType = VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR};
  vkGetPipelineExecutableStatisticsKHR(the_device, &executable, &found, rows);
  size_t used = 0;
  out[0] = 0;
  for (uint32_t i = 0; i < found && used < size; ++i)
    used += (size_t)snprintf(out + used, size - used, "%s %u; ", rows[i].name, (unsigned)rows[i].value.u64);
  vkDestroyPipeline(the_device, pipeline, NULL);
  return 0;
}

#include "vulkan/loop_probe.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>

#include "core/environment.h"
#include "device_shaders.gen.h"
#include "vulkan/check.h"
#include "vulkan/device_impl.h"
#include "vulkan/memory.h"

namespace aule::vulkan {
namespace {

constexpr uint32_t kIterations = 1u << 17;  // at most 2.3 ms of a processor (Mesa 26.2)
constexpr uint32_t kAgain = 100;            // of a second loop
// No driver could run shaders with a smaller limit, so a smaller answer is invalid.
constexpr uint32_t kLeastLimit = 1024;

// shaders/device/loop_limit.glsl
struct Push {
  uint64_t answer;
  uint32_t n, seed, again;
};
struct Answer {
  uint32_t count, inverted, state, again;
};

Answer run(DeviceImpl& d) {
  const auto& vk = d.vk;
  VkShaderModuleCreateInfo code{VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO};
  code.codeSize = sizeof kLoopLimitShader;
  code.pCode = kLoopLimitShader;
  VkComputePipelineCreateInfo info{VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO};
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.pName = "main";
  const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(Push)};
  VkPipelineLayoutCreateInfo layout{VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO};
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &range;
  VK_CHECK(vk.vkCreatePipelineLayout(d.handle, &layout, nullptr, &info.layout));
  VkPipeline pipeline = VK_NULL_HANDLE;
  VK_CHECK(vk.vkCreateShaderModule(d.handle, &code, nullptr, &info.stage.module));
  const VkResult made = vk.vkCreateComputePipelines(d.handle, VK_NULL_HANDLE, 1, &info, nullptr, &pipeline);
  vk.vkDestroyShaderModule(d.handle, info.stage.module, nullptr);
  VK_CHECK(made);

  VkCommandPoolCreateInfo pool_info{VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO};
  pool_info.queueFamilyIndex = d.queue_family;
  VkCommandPool pool = VK_NULL_HANDLE;
  VK_CHECK(vk.vkCreateCommandPool(d.handle, &pool_info, nullptr, &pool));
  VkCommandBufferAllocateInfo buffer_info{VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO};
  buffer_info.commandPool = pool;
  buffer_info.commandBufferCount = 1;
  VkCommandBuffer cmd = VK_NULL_HANDLE;
  VK_CHECK(vk.vkAllocateCommandBuffers(d.handle, &buffer_info, &cmd));
  const VkCommandBufferBeginInfo begin{VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  VK_CHECK(vk.vkBeginCommandBuffer(cmd, &begin));
  Segment* memory = d.memory->allocate(MemoryKind::host, 256);
  std::memset(memory->mapped, 0, sizeof(Answer));  // an invalid answer, if the shader does not run
  const Push push{memory->address, kIterations, 0x12345678, kAgain};
  vk.vkCmdBindPipeline(cmd, VK_PIPELINE_BIND_POINT_COMPUTE, pipeline);
  vk.vkCmdPushConstants(cmd, info.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof push, &push);
  vk.vkCmdDispatch(cmd, 1, 1, 1);
  VkMemoryBarrier2 barrier{VK_STRUCTURE_TYPE_MEMORY_BARRIER_2};
  barrier.srcStageMask = VK_PIPELINE_STAGE_2_COMPUTE_SHADER_BIT;
  barrier.srcAccessMask = VK_ACCESS_2_SHADER_WRITE_BIT;
  barrier.dstStageMask = VK_PIPELINE_STAGE_2_HOST_BIT;
  barrier.dstAccessMask = VK_ACCESS_2_HOST_READ_BIT;
  VkDependencyInfo dependency{VK_STRUCTURE_TYPE_DEPENDENCY_INFO};
  dependency.memoryBarrierCount = 1;
  dependency.pMemoryBarriers = &barrier;
  vk.vkCmdPipelineBarrier2(cmd, &dependency);
  VK_CHECK(vk.vkEndCommandBuffer(cmd));
  VkCommandBufferSubmitInfo submitted{VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO};
  submitted.commandBuffer = cmd;
  VkSubmitInfo2 submit{VK_STRUCTURE_TYPE_SUBMIT_INFO_2};
  submit.commandBufferInfoCount = 1;
  submit.pCommandBufferInfos = &submitted;
  Queue& queue = *d.queues.front();
  VK_CHECK(vk.vkQueueSubmit2(queue.handle, 1, &submit, VK_NULL_HANDLE));
  VK_CHECK(vk.vkQueueWaitIdle(queue.handle));
  Answer answer;
  std::memcpy(&answer, memory->mapped, sizeof answer);
  d.memory->free(memory);
  vk.vkDestroyCommandPool(d.handle, pool, nullptr);
  vk.vkDestroyPipeline(d.handle, pipeline, nullptr);
  vk.vkDestroyPipelineLayout(d.handle, info.layout, nullptr);
  return answer;
}

}  // namespace

uint32_t probe_loop_limit(DeviceImpl& device) noexcept {
  try {
    const Answer answer = run(device);
    const bool sense = answer.inverted == ~answer.count && answer.count >= kLeastLimit && answer.count <= kIterations;
    if (sense && answer.count == kIterations) return 0;
    if (sense && answer.again == kAgain)
      std::fprintf(stderr,
                   "torch_aule: %s %s ends each loop of a shader after %u iterations, and not all together as other "
                   "drivers do: a kernel that needs more would not be noticed\n",
                   device.profile.driver_name.c_str(), device.profile.driver_info.c_str(), answer.count);
    if (sense) return answer.count;
  } catch (const std::exception&) {  // the next use of the device throws the cause
  }
  return kAssumedLoopLimit;
}

void set_loop_limit(Caps& caps, uint32_t driver_limit) {
  caps.driver_loop_limit = driver_limit;
  const uint32_t rest = driver_limit - std::min(driver_limit, kGuardTurns);
  caps.max_loop_iterations = environment().limited.max_loop_iterations.value_or(rest);
}

}  // namespace aule::vulkan

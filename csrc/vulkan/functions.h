// The Vulkan functions this library calls: the only list of them.
#pragma once

// clang-format off: lists
#define AULE_VK_GLOBAL(X) \
  X(vkCreateInstance) X(vkEnumerateInstanceVersion) X(vkEnumerateInstanceLayerProperties) \
  X(vkEnumerateInstanceExtensionProperties)

#define AULE_VK_INSTANCE(X) \
  X(vkDestroyInstance) X(vkEnumeratePhysicalDevices) X(vkGetPhysicalDeviceProperties2) \
  X(vkGetPhysicalDeviceFeatures2) X(vkGetPhysicalDeviceMemoryProperties2) \
  X(vkGetPhysicalDeviceQueueFamilyProperties2) X(vkEnumerateDeviceExtensionProperties) X(vkCreateDevice) \
  X(vkGetDeviceProcAddr) X(vkCreateDebugUtilsMessengerEXT) X(vkGetPhysicalDeviceCooperativeMatrixPropertiesKHR)

#define AULE_VK_DEVICE(X) \
  X(vkGetDeviceQueue) X(vkDeviceWaitIdle) X(vkQueueWaitIdle) X(vkAllocateMemory) X(vkFreeMemory) X(vkMapMemory) \
  X(vkUnmapMemory) X(vkCreateBuffer) X(vkDestroyBuffer) X(vkGetBufferMemoryRequirements2) \
  X(vkBindBufferMemory2) X(vkGetBufferDeviceAddress) X(vkQueueBindSparse) X(vkCreateShaderModule) \
  X(vkDestroyShaderModule) X(vkCreatePipelineLayout) X(vkDestroyPipelineLayout) X(vkCreateComputePipelines) \
  X(vkDestroyPipeline) X(vkCreateDescriptorSetLayout) X(vkCreateDescriptorPool) X(vkAllocateDescriptorSets) \
  X(vkUpdateDescriptorSets) X(vkCmdBindDescriptorSets) X(vkCreatePipelineCache) X(vkGetPipelineCacheData) \
  X(vkCreateCommandPool) X(vkDestroyCommandPool) X(vkAllocateCommandBuffers) \
  X(vkFreeCommandBuffers) X(vkResetCommandBuffer) X(vkResetCommandPool) X(vkBeginCommandBuffer) \
  X(vkEndCommandBuffer) X(vkCmdBindPipeline) X(vkCmdPushConstants) X(vkCmdDispatch) X(vkCmdDispatchBase) \
  X(vkCmdPipelineBarrier2) X(vkCmdCopyBuffer) X(vkCmdFillBuffer) X(vkCmdWriteTimestamp2) X(vkCmdResetQueryPool) \
  X(vkCreateQueryPool) X(vkDestroyQueryPool) X(vkGetQueryPoolResults) X(vkResetQueryPool) \
  X(vkCmdCopyQueryPoolResults) X(vkCreateSemaphore) X(vkDestroySemaphore) \
  X(vkGetSemaphoreCounterValue) X(vkWaitSemaphores) X(vkQueueSubmit2) \
  X(vkCmdBeginDebugUtilsLabelEXT) X(vkCmdEndDebugUtilsLabelEXT) X(vkSetDebugUtilsObjectNameEXT) \
  X(vkGetDeviceFaultInfoEXT) X(vkGetPipelineExecutablePropertiesKHR) X(vkGetPipelineExecutableStatisticsKHR) \
  X(vkGetMemoryHostPointerPropertiesEXT) X(vkGetCalibratedTimestampsEXT)
// clang-format on

// The one Vulkan instance of the process, and validation messages.
//
// TORCH_AULE_VALIDATION=1 turns on VK_LAYER_KHRONOS_validation with synchronisation validation; its messages go to
// stderr and are counted, so that tests can fail on the first one.
#pragma once
#include <string>
#include <vector>

#include "vulkan/loader.h"

namespace aule::vulkan {

struct Instance {
  Functions vk;
  VkInstance handle = VK_NULL_HANDLE;
  bool debug_labels = false;  // VK_EXT_debug_utils is on
};

Instance& instance();  // created on first use; throws NoDevice or Error

int validation_message_count();
std::vector<std::string> validation_messages();  // the first 64

}  // namespace aule::vulkan

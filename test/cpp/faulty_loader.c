/* A Vulkan loader in front of the system's, with one fault by AULE_TEST_FAULT: "queues", no queue computes;
 * "pipelines", no kernel compiles; "memory", for lack of memory. Only what Vulkan's interface fixes is declared here,
 * so no headers are needed. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Function)(void);
typedef Function (*GetProcAddr)(void* of, const char* name);

struct QueueFamily { /* VkQueueFamilyProperties2 */
  int32_t type;
  void* next;
  uint32_t flags, count, timestamp_bits, granularity[3];
};
enum { COMPUTE = 2, ERROR_OUT_OF_DEVICE_MEMORY = -2, ERROR_UNKNOWN = -13 };

static GetProcAddr real_instance, real_device;
static void (*real_families)(void* device, uint32_t* count, struct QueueFamily* families);

static int has_fault(const char* name) {
  const char* fault = getenv("AULE_TEST_FAULT");
  return fault != NULL && strcmp(fault, name) == 0;
}

static void families_without_compute(void* device, uint32_t* count, struct QueueFamily* families) {
  real_families(device, count, families);
  for (uint32_t i = 0; families != NULL && i < *count; i++) families[i].flags &= ~(uint32_t)COMPUTE;
}

/* Of any arguments, which C's calls allow. */
static int32_t no_pipelines(void) { return has_fault("memory") ? ERROR_OUT_OF_DEVICE_MEMORY : ERROR_UNKNOWN; }

static Function of_device(void* device, const char* name) {
  if (strcmp(name, "vkCreateComputePipelines") == 0 && (has_fault("pipelines") || has_fault("memory")))
    return (Function)no_pipelines;
  return real_device(device, name);
}

Function vkGetInstanceProcAddr(void* instance, const char* name) {
  if (real_instance == NULL) {
    void* library = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return NULL;
    *(void**)&real_instance = dlsym(library, "vkGetInstanceProcAddr");
  }
  Function found = real_instance(instance, name);
  if (strcmp(name, "vkGetDeviceProcAddr") == 0) {
    real_device = (GetProcAddr)found;
    return (Function)of_device;
  }
  if (strcmp(name, "vkGetPhysicalDeviceQueueFamilyProperties2") == 0 && has_fault("queues")) {
    *(Function*)&real_families = found;
    return (Function)families_without_compute;
  }
  return found;
}

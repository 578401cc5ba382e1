#include "vulkan/pipeline.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <mutex>

#include "core/environment.h"
#include "vulkan/check.h"
#include "vulkan/device_impl.h"
#include "vulkan/instance.h"
#include "vulkan/loop_guard.h"
#include "vulkan/pipeline_statistics.h"
#include "vulkan/spirv_prune.h"

#ifndef _WIN32
#include <unistd.h>
#endif

namespace aule::vulkan {
namespace fs = std::filesystem;

namespace {

uint64_t checksum(const std::string& data) {
  uint64_t h = 1469598103934665603ull;  // FNV-1a
  for (unsigned char c : data) h = (h ^ c) * 1099511628211ull;
  return h;
}

// Our header before the driver's data: drivers check theirs, but not for truncation or flipped bits.
struct FileHeader {
  char magic[8] = {'a', 'u', 'l', 'e', 'p', 'c', '0', '1'};
  uint64_t bytes = 0, sum = 0;
};

}  // namespace

struct PipelineStore::Disk {
  fs::path file;  // empty: no disk cache
  std::mutex mutex;
  size_t compiled = 0, saved = 0;
  std::vector<std::string> labels;
  bool warned = false;
  std::chrono::steady_clock::time_point last_save = std::chrono::steady_clock::now();

  void warn(const std::string& what) {
    if (!warned) std::fprintf(stderr, "torch_aule: pipeline cache not kept: %s\n", what.c_str());
    warned = true;
  }
  std::string read() const {
    std::ifstream in(file, std::ios::binary);
    FileHeader header, want;
    if (!in.read(reinterpret_cast<char*>(&header), sizeof header)) return {};
    if (std::memcmp(header.magic, want.magic, sizeof want.magic) != 0 || header.bytes > (1ull << 30)) return {};
    std::string data(header.bytes, '\0');
    if (!in.read(data.data(), static_cast<std::streamsize>(data.size())) || checksum(data) != header.sum) return {};
    return data;
  }
  // Every folder that is ours to make is private, as torch_aule/backend/cache_folder.py makes them; one that was there
  // keeps its permissions.
  static void make_private(const fs::path& folder) {
    std::error_code error;
    if (folder.empty() || fs::exists(folder, error)) return;
    if (folder.has_relative_path()) make_private(folder.parent_path());
    [[maybe_unused]] const bool made = fs::create_directory(folder, error);
#ifndef _WIN32
    if (made) fs::permissions(folder, fs::perms::owner_all, error);
#endif
  }
  // Written beside and renamed: a reader never sees half a file, and a full disk leaves the old one.
  bool write(const std::string& data) {
    std::error_code error;
    make_private(file.parent_path());
    const fs::path temporary = file.string() + "." +
                               std::to_string(
#ifdef _WIN32
                                   static_cast<unsigned long>(checksum(file.string()))
#else
                                   static_cast<unsigned long>(getpid())
#endif
                               );
    {
      std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
      FileHeader header;
      header.bytes = data.size();
      header.sum = checksum(data);
      out.write(reinterpret_cast<const char*>(&header), sizeof header);
      out.write(data.data(), static_cast<std::streamsize>(data.size()));
      out.flush();
      if (!out.good()) {
        out.close();
        fs::remove(temporary, error);
        return false;
      }
    }
    fs::rename(temporary, file, error);
    if (error) fs::remove(temporary, error);
    return !error;
  }
};

namespace {
std::mutex g_stores_mutex;
std::vector<PipelineStore*>& stores() {
  static auto* s = new std::vector<PipelineStore*>;
  return *s;
}
#ifndef _WIN32
pid_t g_owner = 0;
#endif
void save_all() {
#ifndef _WIN32
  if (getpid() != g_owner) return;  // a fork inherits this handler, but not the device
#endif
  for (PipelineStore* store : stores()) {
    store->wait_idle();  // the driver's threads must end before their data
    store->save();
  }
}
}  // namespace

PipelineStore::PipelineStore(DeviceImpl& device) : device_(device), disk_(std::make_unique<Disk>()) {
  const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, push_constant_bytes(device.profile)};
  VkPipelineLayoutCreateInfo layout{};
  layout.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  layout.pushConstantRangeCount = 1;
  layout.pPushConstantRanges = &range;
  VkDescriptorSetLayout guard = VK_NULL_HANDLE;
  if (device.loop_guard) {
    guard = device.loop_guard->set_layout();
    layout.setLayoutCount = 1;
    layout.pSetLayouts = &guard;
  }
  VK_CHECK(device.vk.vkCreatePipelineLayout(device.handle, &layout, nullptr, &layout_));

  std::string initial;
  if (const fs::path dir = cache_directory(); !environment().disabled.pipeline_cache && !dir.empty()) {
    disk_->file = dir / pipeline_file_name(device.profile);
    initial = disk_->read();
  }
  VkPipelineCacheCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO;
  info.initialDataSize = initial.size();
  info.pInitialData = initial.data();
  if (device.vk.vkCreatePipelineCache(device.handle, &info, nullptr, &cache_) < 0) {
    info.initialDataSize = 0;  // the driver refused what another version wrote
    VK_CHECK(device.vk.vkCreatePipelineCache(device.handle, &info, nullptr, &cache_));
  }
  std::lock_guard lock(g_stores_mutex);
  if (stores().empty()) {
#ifndef _WIN32
    g_owner = getpid();
#endif
    std::atexit(save_all);
  }
  stores().push_back(this);
}

PipelineStore::~PipelineStore() = default;

void PipelineStore::wait_idle() {
  std::vector<std::unique_lock<std::mutex>> locks;
  for (auto& queue : device_.queues) locks.emplace_back(queue->mutex);
  device_.vk.vkDeviceWaitIdle(device_.handle);
}

std::shared_ptr<Pipeline> PipelineStore::create(const PipelineRequest& r) {
  auto& vk = device_.vk;
  VkShaderModuleCreateInfo module_info{};
  module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  module_info.codeSize = r.spirv_bytes;
  module_info.pCode = reinterpret_cast<const uint32_t*>(r.spirv);
  const std::vector<uint32_t> pruned =
      prune_switches(module_info.pCode, r.spirv_bytes / 4, r.constants, r.constant_count);
  if (!pruned.empty()) {
    module_info.codeSize = pruned.size() * 4;
    module_info.pCode = pruned.data();
  }
  auto pipeline = std::make_shared<Pipeline>();
  pipeline->label = r.name;
  for (size_t i = 0; i < r.constant_count; ++i)
    pipeline->label += (i == 0 ? "(" : ",") + std::to_string(static_cast<int32_t>(r.constants[i]));
  if (r.constant_count != 0) pipeline->label += ")";
  std::vector<uint32_t> guarded;
  if (device_.loop_guard)
    guarded = device_.loop_guard->guarded(module_info.pCode, module_info.codeSize / 4, pipeline->label);
  if (!guarded.empty()) {
    module_info.codeSize = guarded.size() * 4;
    module_info.pCode = guarded.data();
    pipeline->loop_guard = true;
  }
  VkShaderModule module = VK_NULL_HANDLE;
  VK_CHECK(vk.vkCreateShaderModule(device_.handle, &module_info, nullptr, &module));

  std::vector<VkSpecializationMapEntry> entries;
  for (uint32_t i = 0; i < r.constant_count; ++i) entries.push_back({i, i * 4, 4});
  const VkSpecializationInfo constants{static_cast<uint32_t>(entries.size()), entries.data(), r.constant_count * 4,
                                       r.constants};
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.flags = VK_PIPELINE_CREATE_DISPATCH_BASE;
  const bool statistics = wants_pipeline_statistics(device_);
  if (statistics) info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module;
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &constants;
  info.layout = layout_;
  const VkResult result = vk.vkCreateComputePipelines(device_.handle, cache_, 1, &info, nullptr, &pipeline->handle);
  vk.vkDestroyShaderModule(device_.handle, module, nullptr);
  if (result == VK_ERROR_UNKNOWN || result == VK_ERROR_INITIALIZATION_FAILED)
    raise(FailureKind::shader_compile,
          std::string("the driver does not compile ") + r.name + ": " + result_name(result));
  if (result != VK_SUCCESS)
    device_.fail(result, (std::string("vkCreateComputePipelines for ") + r.name).c_str(), __FILE__, __LINE__, "");

  if (statistics) report_pipeline_statistics(device_, pipeline->handle, pipeline->label);
  pipeline->params_ring = r.params_ring;
  pipeline->params_bytes = r.params_bytes;
  static std::atomic<uint32_t> next_id{0};
  pipeline->id = next_id.fetch_add(1);
  bool save_now = false;
  {
    std::lock_guard lock(disk_->mutex);
    ++disk_->compiled;
    disk_->labels.push_back(pipeline->label);
    const auto now = std::chrono::steady_clock::now();
    save_now = now - disk_->last_save > std::chrono::seconds(60);  // a killed process should not lose everything
    if (save_now) disk_->last_save = now;
  }
  if (save_now) save();
  pipeline->temporary = r.temporary;
  pipeline->store = this;
  return pipeline;
}

Pipeline::~Pipeline() {
  if (store != nullptr) store->destroy(*this);
}

void PipelineStore::destroy(const Pipeline& pipeline) noexcept {
#ifndef _WIN32
  if (getpid() != g_owner) return;  // a fork has the handle, but not the device
#endif
  device_.vk.vkDestroyPipeline(device_.handle, pipeline.handle, nullptr);
  std::lock_guard lock(disk_->mutex);
  const auto found = std::find(disk_->labels.begin(), disk_->labels.end(), pipeline.label);
  if (found != disk_->labels.end()) disk_->labels.erase(found);
}

std::vector<std::string> PipelineStore::labels() const {
  std::lock_guard lock(disk_->mutex);
  return disk_->labels;
}

std::string PipelineStore::file() const { return disk_->file.string(); }

void PipelineStore::save() {
  std::lock_guard lock(disk_->mutex);
  if (disk_->file.empty() || disk_->compiled == disk_->saved || device_.lost) return;
  try {
    size_t bytes = 0;
    if (device_.vk.vkGetPipelineCacheData(device_.handle, cache_, &bytes, nullptr) < 0) return;
    std::string data(bytes, '\0');
    if (device_.vk.vkGetPipelineCacheData(device_.handle, cache_, &bytes, data.data()) != VK_SUCCESS) return;
    data.resize(bytes);
    disk_->saved = disk_->compiled;  // also if it fails, so that the warning comes once
    if (disk_->write(data)) return;
    disk_->warn("cannot write " + disk_->file.string());
  } catch (const std::exception& error) {
    disk_->warn(error.what());
  }
}

}  // namespace aule::vulkan

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
#include "vulkan/compile_threads.h"
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
  mutable std::mutex labels_mutex;  // held for no longer than a look: a launch may wait for it
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
  CompileThreads::of_process().end();  // the driver may not end while it compiles
  for (PipelineStore* store : stores()) {
    store->wait_idle();  // the driver's threads must end before their data
    store->save();
  }
}
}  // namespace

// A software device compiles on the cores that its kernels run on, most of it at the first dispatch.
PipelineStore::PipelineStore(DeviceImpl& device)
    : device_(device),
      on_threads_(CompileThreads::of_process().allowed() && !device.profile.is_software()),
      disk_(std::make_unique<Disk>()) {
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

Pipeline::Pipeline(PipelineStore& store, const PipelineRequest& r, uint32_t its_id)
    : label(r.name),
      params_ring(r.params_ring),
      // Whether it has loops is known when it is compiled. If it has none, a barrier of its batch is not needed.
      loop_guard(store.device_.loop_guard != nullptr),
      params_bytes(r.params_bytes),
      id(its_id),
      temporary(r.temporary),
      store_(store),
      spirv_(r.spirv),
      spirv_bytes_(r.spirv_bytes),
      constants_(r.constants, r.constants + r.constant_count),
      owner_(r.owner) {
  for (size_t i = 0; i < constants_.size(); ++i)
    label += (i == 0 ? "(" : ",") + std::to_string(static_cast<int32_t>(constants_[i]));
  if (!constants_.empty()) label += ")";
}

Pipeline::~Pipeline() { store_.forget(*this); }

void Pipeline::start() const {
  State state = state_.load(std::memory_order_acquire);
  while (state == State::idle || state == State::failed) {
    if (!state_.compare_exchange_weak(state, State::under_way, std::memory_order_acq_rel)) continue;
    if (store_.on_threads_ && CompileThreads::of_process().take(shared_from_this())) return;
    compile();
    return wait();
  }
  if (state == State::under_way && !store_.on_threads_) wait();
}

void Pipeline::compile() const noexcept {
  Outcome outcome;
  try {
    outcome = store_.compile(*this);
  } catch (const std::exception& error) {
    outcome.failure = error.what();
  }
  end(std::move(outcome));
}

void Pipeline::give_up() const noexcept { end({VK_NULL_HANDLE, VK_SUCCESS, "the process ends"}); }

void Pipeline::end(Outcome outcome) const noexcept {
  const bool made = outcome.handle != VK_NULL_HANDLE;
  if (made) owner_.reset();
  {
    std::lock_guard lock(store_.outcome_mutex_);
    outcome_ = std::move(outcome);
    handle_.store(outcome_.handle, std::memory_order_release);
    state_.store(made ? State::ready : State::failed, std::memory_order_release);
  }
  store_.settled_.notify_all();
}

void Pipeline::settle() const {
  if (!under_way()) return;
  std::unique_lock lock(store_.outcome_mutex_);
  store_.settled_.wait(lock, [&] { return !under_way(); });
}

bool Pipeline::settle_for(std::chrono::milliseconds time) const {
  std::unique_lock lock(store_.outcome_mutex_);
  return store_.settled_.wait_for(lock, time, [&] { return !under_way(); });
}

void Pipeline::wait() const {
  Outcome outcome;
  {
    std::unique_lock lock(store_.outcome_mutex_);
    store_.settled_.wait(lock, [&] { return !under_way(); });
    outcome = outcome_;
  }
  if (outcome.handle != VK_NULL_HANDLE) return;
  const VkResult result = outcome.result;
  if (result == VK_ERROR_UNKNOWN || result == VK_ERROR_INITIALIZATION_FAILED)
    raise(FailureKind::shader_compile, "the driver does not compile " + label + ": " + result_name(result));
  if (result != VK_SUCCESS)
    store_.device_.fail(result, ("vkCreateComputePipelines for " + label).c_str(), __FILE__, __LINE__, "");
  throw Error(label + " was not compiled: " + outcome.failure);
}

std::shared_ptr<const Pipeline> PipelineStore::create(const PipelineRequest& r) {
  static std::atomic<uint32_t> next_id{0};
  auto pipeline = std::make_shared<const Pipeline>(*this, r, next_id.fetch_add(1));
  std::lock_guard lock(disk_->labels_mutex);
  disk_->labels.push_back(pipeline->label);
  return pipeline;
}

Pipeline::Outcome PipelineStore::compile(const Pipeline& p) {
  auto& vk = device_.vk;
  Pipeline::Outcome outcome;
  VkShaderModuleCreateInfo module_info{};
  module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  module_info.codeSize = p.spirv_bytes_;
  module_info.pCode = reinterpret_cast<const uint32_t*>(p.spirv_);
  const std::vector<uint32_t> pruned =
      prune_switches(module_info.pCode, p.spirv_bytes_ / 4, p.constants_.data(), p.constants_.size());
  if (!pruned.empty()) {
    module_info.codeSize = pruned.size() * 4;
    module_info.pCode = pruned.data();
  }
  std::vector<uint32_t> guarded;
  if (device_.loop_guard)
    guarded = device_.loop_guard->guarded(module_info.pCode, module_info.codeSize / 4, p.label);
  if (!guarded.empty()) {
    module_info.codeSize = guarded.size() * 4;
    module_info.pCode = guarded.data();
  }
  VkShaderModule module = VK_NULL_HANDLE;
  outcome.result = vk.vkCreateShaderModule(device_.handle, &module_info, nullptr, &module);
  if (outcome.result != VK_SUCCESS) return outcome;

  std::vector<VkSpecializationMapEntry> entries;
  for (uint32_t i = 0; i < p.constants_.size(); ++i) entries.push_back({i, i * 4, 4});
  const VkSpecializationInfo constants{static_cast<uint32_t>(entries.size()), entries.data(), p.constants_.size() * 4,
                                       p.constants_.data()};
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
  const auto began = std::chrono::steady_clock::now();
  outcome.result = vk.vkCreateComputePipelines(device_.handle, cache_, 1, &info, nullptr, &outcome.handle);
  const auto now = std::chrono::steady_clock::now();
  vk.vkDestroyShaderModule(device_.handle, module, nullptr);
  if (outcome.result != VK_SUCCESS) {
    outcome.handle = VK_NULL_HANDLE;  // a faulty driver may have written it
    return outcome;
  }
  driver_ns_ += static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(now - began).count());
  ++compiled_;

  if (statistics) report_pipeline_statistics(device_, outcome.handle, p.label);
  bool save_now = false;
  {
    std::lock_guard lock(disk_->mutex);
    ++disk_->compiled;
    save_now = now - disk_->last_save > std::chrono::seconds(60);  // a killed process should not lose everything
    if (save_now) disk_->last_save = now;
  }
  if (save_now) save();
  return outcome;
}

void PipelineStore::forget(const Pipeline& pipeline) noexcept {
#ifndef _WIN32
  if (getpid() != g_owner) return;  // a fork has the handle, but not the device
#endif
  if (pipeline.ready()) device_.vk.vkDestroyPipeline(device_.handle, pipeline.handle(), nullptr);
  std::lock_guard lock(disk_->labels_mutex);
  const auto found = std::find(disk_->labels.begin(), disk_->labels.end(), pipeline.label);
  if (found != disk_->labels.end()) disk_->labels.erase(found);
}

void finish_compilations() { CompileThreads::of_process().finish(); }

CompileTimes PipelineStore::times() const { return {compiled_, static_cast<double>(driver_ns_) * 1e-9}; }

std::vector<std::string> PipelineStore::labels() const {
  std::lock_guard lock(disk_->labels_mutex);
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

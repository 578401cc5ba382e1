// The layers below Torch, on a device. Usage: device_tests NAME...; the names are the functions below.
#include <algorithm>
#include <atomic>
#include <ctime>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <thread>

#include "added_kernels.h"
#include "cold_kernels.h"
#include "core/queues.h"
#include "device_memory.h"
#include "fixture.h"
#include "integers.h"
#include "kernels/pipelines.h"
#include "long_loops.h"
#include "random_work.h"
#include "stream/cost.h"
#include "stream/hazards.h"
#include "stream/stream_impl.h"
#include "vulkan/instance.h"
#include "vulkan/pipeline.h"
#include "vulkan/device_impl.h"
#include "stream/errors.h"

namespace aule {
namespace {


// Streams of high priority share no queue with the others, and every queue serves one, where there are two or more.
void queues() {
  for (uint32_t count = 1; count <= kMaxQueues; ++count) {
    const uint32_t high = high_priority_queues(count);
    CHECK(high < count && (high > 0) == (count > 1));
    std::vector<uint8_t> used(count, 0);
    for (uint32_t turn = 0; turn < 32; ++turn) {
      for (bool wants_high : {false, true}) {
        const uint32_t queue = queue_of_stream(count, wants_high, turn);
        CHECK(queue < count);
        CHECK((queue >= count - high) == (wants_high && high > 0));
        used[queue] = 1;
      }
    }
    CHECK(std::count(used.begin(), used.end(), 1) == count);
  }
}

// Against a byte map: a barrier is due exactly when a read was written or a write was read or written since the last.
void hazards() {
  std::mt19937 random(7);
  stream::Hazards h;
  std::vector<uint8_t> read(256), written(256);
  uint8_t since = 0;            // stages since the last barrier
  bool transfer_unseen = false;  // compute writes that no barrier has ordered before transfers yet
  for (int step = 0; step < 20000; ++step) {
    std::vector<Access> accesses(random() % 4);
    bool due = false;
    for (Access& a : accesses) {
      a.begin = random() % 250;
      a.end = a.begin + 1 + random() % 6;
      a.write = random() % 3 == 0;
      for (uint64_t i = a.begin; i < a.end; ++i) due |= written[i] || (a.write && read[i]);
    }
    auto stage = random() % 8 == 0 ? stream::kTransfer : stream::kCompute;
    bool late = stage == stream::kTransfer && transfer_unseen && !accesses.empty();
    auto need = h.step(stage, accesses.data(), accesses.size());
    CHECK(need.needed == (due || late));
    if (need.needed) {
      CHECK((need.before & since) == since && (need.after & stage));
      CHECK(!late || (need.before & stream::kCompute));
      if (need.after & stream::kTransfer) transfer_unseen = false;
      else transfer_unseen = true;
      std::fill(read.begin(), read.end(), 0);
      std::fill(written.begin(), written.end(), 0);
      since = 0;
    }
    since = static_cast<uint8_t>(since | stage);
    for (const Access& a : accesses) {
      for (uint64_t i = a.begin; i < a.end; ++i) (a.write ? written : read)[i] = 1;
    }
  }
  h.clear();
  const Access one{0, 4, true};
  CHECK(!h.step(stream::kCompute, &one, 1).needed);
  h.touch_everything();
  const Access other{100, 104, false};
  CHECK(h.step(stream::kCompute, &other, 1).needed);
  CHECK(!h.step(stream::kCompute, &other, 1).needed);
}

// The masks of a barrier: what a side of it writes is made available, and what the other side reads or writes sees it.
// No validation layer knows what a shader does through addresses, and lavapipe has no caches to forget.
VkMemoryBarrier2 recorded_barrier;
void barriers() {
  vulkan::DeviceImpl& impl = vulkan::Device::get(0).impl();
  const auto driver = impl.vk.vkCmdPipelineBarrier2;
  impl.vk.vkCmdPipelineBarrier2 = [](VkCommandBuffer, const VkDependencyInfo* info) {
    recorded_barrier = *info->pMemoryBarriers;
  };
  for (uint8_t before : {stream::kCompute, stream::kTransfer}) {
    for (uint8_t after : {stream::kCompute, stream::kTransfer}) {
      stream::record_barrier(impl, VK_NULL_HANDLE, before, after);
      const VkMemoryBarrier2& b = recorded_barrier;
      const auto has = [](uint64_t mask, uint64_t bits) { return (mask & bits) == bits; };
      CHECK(has(b.srcAccessMask, before == stream::kCompute ? VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT
                                                            : VK_ACCESS_2_TRANSFER_WRITE_BIT));
      CHECK(has(b.dstAccessMask, after == stream::kCompute
                                     ? VK_ACCESS_2_SHADER_STORAGE_READ_BIT | VK_ACCESS_2_SHADER_STORAGE_WRITE_BIT
                                     : VK_ACCESS_2_TRANSFER_READ_BIT | VK_ACCESS_2_TRANSFER_WRITE_BIT));
    }
  }
  impl.vk.vkCmdPipelineBarrier2 = driver;
}

void costs() {
  stream::CostModel m;
  float first = m.predict(3, 100, 1000);
  CHECK(first > 0);
  m.learn({{3, 100, 1000, first}}, 5e6);
  CHECK(m.predict(3, 100, 1000) == 5e6f);
  CHECK(m.predict(3, 120, 1000) > 5.9e6f && m.predict(3, 120, 1000) < 6.1e6f);
  CHECK(m.predict(3, 100, 4000) > 19e6f);                    // more to read at the same grid: a longer inner loop
  CHECK(m.predict(3, 100000, 1000000) > 1000 * 5e6f * 0.99);  // nothing known at this size: at least in proportion
  m.learn({{3, 100, 1000, 5e6f}, {3, 100, 1000, 5e6f}}, 8e6);
  CHECK(m.predict(3, 100, 1000) == 4e6f);  // the first run is replaced by the second
  m.learn({{3, 100, 1000, 4e6f}}, 1e6);
  CHECK(m.predict(3, 100, 1000) > 3e6f);  // falls slowly then, and not faster by many launches in a batch
  m.learn(std::vector<stream::CostModel::Work>(100, {3, 100, 1000, 4e6f}), 1e6);
  CHECK(m.predict(3, 100, 1000) > 2e6f && m.predict(3, 100, 1000) < 3.1e6f);
  m.learn({{3, 100, 1000, 4e6f}, {5, 10, 10, 4e6f}}, 16e6);  // shared in proportion
  CHECK(m.predict(3, 100, 1000) == 8e6f && m.predict(5, 10, 10) == 8e6f);
}

// Every second call of a pipeline reads much, and is thought to take long, beside a hundred launches of another one.
void costs_stay_numbers() {
  stream::CostModel m;
  const auto run = [&](std::vector<stream::CostModel::Work> work, double total_ns) {
    for (auto& one : work) one.predicted_ns = m.predict(one.pipeline, one.groups, one.bytes);
    m.learn(work, total_ns);
  };
  std::vector<stream::CostModel::Work> both(101, {2, 100, 1000, 0});
  both[0] = {1, 100, uint64_t{1} << 30, 0};
  for (int i = 0; i < 8; ++i) {
    run({{1, 100, 1, 0}}, 1e6);
    run(both, 1e6);
  }
  for (int i = 0; i < 3; ++i) {
    run({{2, 100, 1000, 0}}, 1e6);
    CHECK(m.predict(2, 100, 1000) > 0.99e6f && m.predict(2, 100, 1000) < 1.01e6f);
    const float larger = m.predict(2, 66001, 1000);
    CHECK(larger > 600e6f && larger < 700e6f);
  }
  for (const double total_ns : {1e300, 1e-300}) {
    run({{4, 1, 0, 0}}, total_ns);
    for (const uint64_t groups : {uint64_t{1}, ~uint64_t{0}}) {
      const float estimate = m.predict(4, groups, ~uint64_t{0});
      CHECK(estimate >= stream::CostModel::kLeastNs && estimate <= stream::CostModel::kMostNs);
    }
  }
}

void dispatch() {
  auto& s = main_stream();
  Words a(1000), b(1000);
  auto host = counting(1000);
  s.upload(a.address(), host.data(), a.bytes());
  scale_add(s, b, a, 3, 7);
  scale_add(s, a, b, 2, 1);
  auto got = read(s, a);
  for (uint32_t i = 0; i < 1000; ++i) CHECK(got[i] == (i * 3 + 7) * 2 + 1);
  CHECK(s.idle());
}

// A long chain over few buffers: every step depends on the one before, across many batches.
void chain() {
  auto& s = main_stream();
  Words a(4096), b(4096);
  s.fill(a.address(), a.bytes(), 5);
  for (int i = 0; i < 500; ++i) {
    scale_add(s, b, a, 1, 1);
    ring_add(s, a, b, 2);
  }
  for (uint32_t v : read(s, a)) CHECK(v == 5 + 1500);
}

void copies() {
  auto& s = main_stream();
  Words a(5000), b(5000), pinned(5000, vulkan::MemoryKind::host);
  auto host = counting(5000, 11);
  s.upload(a.address(), host.data(), a.bytes());
  s.fill(b.address(), b.bytes(), 0);
  s.copy(b.address() + 3, a.address() + 1, 777);  // any byte alignment
  scale_add(s, a, a, 1, 1);                       // write after read
  s.copy(pinned.address(), b.address(), b.bytes());
  s.synchronize();
  std::vector<uint32_t> expected(5000, 0);
  std::memcpy(reinterpret_cast<char*>(expected.data()) + 3, reinterpret_cast<const char*>(host.data()) + 1, 777);
  CHECK(std::memcmp(pinned.segment->mapped, expected.data(), 20000) == 0);
  CHECK(read(s, a)[4999] == 11 + 4999 + 1);
  THROWN(vulkan::Error, s.copy(a.address(), a.address() + 8, 64));   // overlap
  THROWN(vulkan::Error, s.copy(a.address(), uint64_t{12345}, 64));   // nobody's memory
  THROWN(vulkan::Error, s.fill(a.address() + 1, 4, 0));
  // An upload while the stream is busy must not overtake what was recorded before it.
  for (int round = 0; round < 20; ++round) {
    auto first = counting(5000, static_cast<uint32_t>(round)), second = counting(5000, 1000000);
    s.upload(a.address(), first.data(), a.bytes());
    scale_add(s, b, a, 1, 0);
    s.upload(a.address(), second.data(), a.bytes());
    CHECK(read(s, b)[17] == static_cast<uint32_t>(round) + 17);
    CHECK(read(s, a)[17] == 1000017);
  }
}

void big_copies() {
  auto& s = main_stream();
  constexpr uint32_t n = 9u << 20;  // 36 MiB: several staging chunks
  Words a(n), b(n);
  auto host = counting(n, 3);
  scale_add(s, b, a, 1, 0);  // keeps the stream busy, so that the upload goes through staging
  s.upload(a.address(), host.data(), a.bytes());
  scale_add(s, b, a, 2, 0);
  auto got = read(s, b);
  for (uint32_t i = 0; i < n; i += 997) CHECK(got[i] == 2 * (3 + i));
}

void streams() {
  auto &s0 = main_stream(), &s1 = CommandStream::get(0, CommandStream::next_pool_id(0, 0)),
       &s2 = CommandStream::get(0, CommandStream::next_pool_id(0, -1));
  CHECK(&s0 != &s1 && &s1 != &s2);
  Words a(100000), b(100000), c(100000);
  for (uint32_t round = 0; round < 30; ++round) {
    s0.fill(a.address(), a.bytes(), round);
    auto filled = s0.record(false);
    s1.wait_for(filled);
    for (int i = 0; i < 5; ++i) scale_add(s1, b, a, 1, 1);
    auto added = s1.record(false);
    s2.wait_for(added);
    scale_add(s2, c, b, 2, 0);
    auto doubled = s2.record(false);
    s0.wait_for(doubled);  // s0 writes a again only after all have read
    CHECK(read(s2, c)[99999] == 2 * (round + 1));
  }
  stream::synchronize_device(0);
}

void events() {
  auto& s = main_stream();
  Words a(1 << 20);
  auto start = s.record(true);
  for (int i = 0; i < 20; ++i) scale_add(s, a, a, 1, 1);
  auto end = s.record(true);
  double ms = CommandStream::elapsed_ms(start, end);
  CHECK(ms > 0 && ms < 60000);
  CHECK(CommandStream::elapsed_ms(end, start) <= 0);
  CHECK(s.done(end.value));
  for (int i = 0; i < 600; ++i) {  // more than one pool of slots, given back before they are written
    auto m = s.record(true);
    s.release(m);
    CHECK(m.stream == nullptr);
  }
  s.release(start);
  s.release(end);
  THROWN(vulkan::Error, CommandStream::elapsed_ms(s.record(false), s.record(false)));
  s.synchronize();
}

void graphs() {
  auto& s = main_stream();
  Words a(3000), b(3000);
  s.fill(a.address(), a.bytes(), 1);
  s.capture_begin();
  CHECK(s.capturing());
  for (int i = 0; i < 10; ++i) {
    scale_add(s, b, a, 1, 3);
    ring_add(s, a, b, 4);
  }
  uint32_t word = 0;
  THROWN(vulkan::Error, s.upload(a.address(), &word, 4));
  THROWN(vulkan::Error, s.download(&word, a.address(), 4));
  THROWN(vulkan::Error, s.synchronize());
  auto graph = s.capture_end();
  CHECK(read(s, a)[0] == 1);  // nothing ran
  for (int i = 0; i < 25; ++i) s.replay(*graph);
  scale_add(s, b, a, 1, 0);
  s.replay(*graph);
  CHECK(read(s, a)[2999] == 1 + 26 * 70);
  CHECK(read(s, b)[7] == 1 + 26 * 70 - 4);
  THROWN(vulkan::Error, s.capture_end());
  s.replay(*graph);
  graph.reset();  // while it may still run
  CHECK(read(s, a)[0] == 1 + 27 * 70);
}

void cut() {  // run with TORCH_AULE_TIME_BUDGET_MS=0.02: every dispatch is cut
  auto& s = main_stream();
  Words a(1 << 18), b(1 << 18);
  auto host = counting(1 << 18);
  s.upload(a.address(), host.data(), a.bytes());
  for (int i = 0; i < 4; ++i) {
    scale_add(s, b, a, 1, 1);
    ring_add(s, a, b, 1);
  }
  auto got = read(s, a);
  for (uint32_t i = 0; i < got.size(); ++i) CHECK(got[i] == i + 8);
}

void index_error() {
  auto& s = main_stream();
  auto report = [&](uint32_t bound) {
    ReportParams p{s.error_address(), 42, bound, 100, 0};
    launch(s, KernelRef<ReportParams, NoSpec>{kReport}, {}, p, Args{}, Grid{2});
  };
  report(100);
  s.synchronize();
  stream::set_error_tag_names([](uint32_t tag) { return tag == 42 ? "embedding" : nullptr; });
  report(99);
  std::string text = THROWN(vulkan::IndexError, s.synchronize());
  CHECK(text.find("embedding") != std::string::npos && text.find("99") != std::string::npos);
  s.synchronize();  // once only
  stream::raise_device_errors(0);
}

void tables() {
  auto& s = main_stream();
  Words a(64);
  s.fill(a.address(), a.bytes(), 1);
  for (uint32_t factor = 0; factor < 300; ++factor) scale_add(s, a, a, factor % 300, 0);  // grows the table
  for (uint32_t factor = 0; factor < 300; ++factor) scale_add(s, a, a, factor, 1);
  CHECK(supports(0, kScaleAdd) && !supports(0, kNever));
  ScaleAddParams p{};
  const KernelRef<ScaleAddParams, ScaleAddSpec> never{kNever}, scale_add_kernel{kScaleAdd};
  std::string text = THROWN(vulkan::MissingFeature, launch(s, never, {}, p, Args{}, Grid{1}));
  CHECK(text.find("never") != std::string::npos);
  THROWN(vulkan::Error, (launch(s, KernelRef<RingAddParams, NoSpec>{kScaleAdd}, {}, RingAddParams{}, Args{}, Grid{1})));
  launch(s, scale_add_kernel, {}, p, Args{}, Grid{0, 1, 1});  // nothing
  THROWN(vulkan::Error, (launch(s, scale_add_kernel, {}, p, Args{}, Grid{1, 1u << 30, 1})));
  s.synchronize();
}

void device_lost() {
  auto& s = main_stream();
  auto& other = CommandStream::get(0, 3);
  Words a(64);
  ring_add(s, a, a, 1);
  s.synchronize();
  scale_add(s, a, a, 1, 1);
  vulkan::inject_device_lost(0);
  std::string text = THROWN(vulkan::DeviceLost, s.synchronize());
  CHECK(text.find("scale_add") != std::string::npos);
  CHECK(text.find("ring_add") == std::string::npos);  // it had finished
  THROWN(vulkan::DeviceLost, s.synchronize());
  THROWN(vulkan::DeviceLost, scale_add(s, a, a, 1, 1));
  THROWN(vulkan::DeviceLost, other.flush());
  THROWN(vulkan::DeviceLost, stream::synchronize_device(0));
  uint32_t word;
  THROWN(vulkan::DeviceLost, s.download(&word, a.address(), 4));
  THROWN(vulkan::DeviceLost, (vulkan::Device::get(0).memory().allocate(vulkan::MemoryKind::device, 4)));
}

void threads() {
  std::vector<std::thread> workers;
  Words shared(2048);
  main_stream().fill(shared.address(), shared.bytes(), 0);
  main_stream().synchronize();
  for (int t = 0; t < 4; ++t) {
    workers.emplace_back([&, t] {
      auto& own = CommandStream::get(0, t + 1);
      Words a(1000), b(1000);
      own.fill(a.address(), a.bytes(), 0);
      for (uint32_t i = 0; i < 300; ++i) {
        scale_add(own, b, a, 1, 1);
        scale_add(own, a, b, i % 40 == 0 ? 1 : 1 + 0 * i, 0);
        scale_add(main_stream(), shared, shared, 1, 1);  // all threads on one stream
        if (i % 50 == 49) CHECK(read(own, a)[999] == i + 1);
      }
    });
  }
  for (auto& w : workers) w.join();
  for (uint32_t v : read(main_stream(), shared)) CHECK(v == 1200);
}

void visible() { std::printf("%d %s\n", vulkan::device_count(), vulkan::unavailable_reason().c_str()); }

void cache() {
  tables();
  std::printf("%s\n", vulkan::Device::get(0).impl().pipelines->file().c_str());
}

// Nanoseconds of this thread's own time that fn takes, per call of n.
double cost_of(int n, const std::function<void(int)>& fn) {
  auto now = [] {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);  // a busy machine must not count
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
  };
  double start = now();
  for (int i = 0; i < n; ++i) fn(i);
  return (now() - start) / n;
}

// Host cost of a dispatch with its barrier: recorded into a graph, where nothing runs, and issued.
void record_cost() {
  auto& s = main_stream();
  Words a(64), b(64);
  auto one = [&](int i) { scale_add(s, i & 1 ? a : b, i & 1 ? b : a, 1, 0); };
  one(0);
  for (int round = 0; round < 3; ++round) {
    s.capture_begin();
    std::printf("{\"name\": \"record_dispatch\", \"ns\": %.0f}\n", cost_of(20000, one));
    s.capture_end();
  }
  for (int round = 0; round < 3; ++round) {
    std::printf("{\"name\": \"issue_dispatch\", \"ns\": %.0f}\n", cost_of(1000, one));
    s.synchronize();
  }
  auto& device = vulkan::Device::get(0);
  const auto spec = spec_words(ScaleAddSpec{});
  std::printf("{\"name\": \"find_pipeline\", \"ns\": %.1f}\n",
              cost_of(1000000, [&](int) { CHECK(&kernels::pipeline_for(device, kScaleAdd, spec) != nullptr); }));
}

void two_devices() {  // TORCH_AULE_VISIBLE_DEVICES=0,0
  CHECK(vulkan::device_count() == 2);
  auto& s1 = CommandStream::get(1, 0);
  CHECK(s1.device_index() == 1 && !vulkan::device_created(0));
  Words a(64);
  auto& s0 = main_stream();
  scale_add(s0, a, a, 1, 1);
  auto marker = s0.record(false);
  s1.wait_for(marker);
  CHECK(s0.done(marker.value));
  THROWN(vulkan::Error, s1.copy(a.address(), a.address() + 128, 64));
}

}  // namespace
}  // namespace aule

int main(int argc, char** argv) {
  using namespace aule;
  const std::map<std::string, std::function<void()>> all = {
#define TEST(name) {#name, name}
      TEST(dispatch), TEST(chain), TEST(copies), TEST(big_copies), TEST(streams), TEST(events), TEST(graphs), TEST(cut),
      TEST(index_error), TEST(tables), TEST(out_of_memory), TEST(device_lost), TEST(threads), TEST(visible),
      TEST(cache), TEST(two_devices), TEST(record_cost), TEST(beyond_one_allocation), TEST(stress), TEST(hazards),
      TEST(costs), TEST(costs_stay_numbers), TEST(long_loops), TEST(queues), TEST(added_kernels),
      TEST(barriers), TEST(integers), TEST(cold_kernels), TEST(cold_failures), TEST(cold_threads), TEST(cold_stress),
      TEST(cold_exit),
  };
  for (int i = 1; i < argc; ++i) {
    auto test = all.find(argv[i]);
    CHECK(test != all.end());
    try {
      test->second();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s threw: %s\n", argv[i], error.what());
      return 1;
    }
    std::fprintf(stderr, "%s ok\n", argv[i]);
  }
  if (int messages = vulkan::validation_message_count()) {
    std::fprintf(stderr, "%d validation messages\n", messages);
    return 1;
  }
  return 0;
}

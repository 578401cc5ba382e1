// Random work, with pipelines that are there and with ones that are compiled meanwhile.
#pragma once
#include <algorithm>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "cold_kernels.h"
#include "fixture.h"

namespace aule {

// Random work over a few buffers on two streams against the same work on the host: every missing barrier, lost
// dispatch or early reuse of a ring shows as a wrong number.
// `factor_of` gives the factor of a dispatch, a constant of its pipeline.
inline void random_work(int steps, const std::function<uint32_t(uint32_t)>& factor_of) {
  const uint32_t seed = std::random_device{}();
  std::fprintf(stderr, "stress: seed %u\n", seed);
  std::mt19937 random(seed);
  constexpr uint32_t n = 3000, buffers = 6;
  std::vector<std::unique_ptr<Words>> device;
  std::vector<std::vector<uint32_t>> host(buffers, std::vector<uint32_t>(n));
  for (uint32_t i = 0; i < buffers; ++i) {
    device.push_back(std::make_unique<Words>(n));
    main_stream().fill(device[i]->address(), device[i]->bytes(), 0);
  }
  CommandStream* streams[] = {&main_stream(), &CommandStream::get(0, 2)};
  CommandStream* s = streams[0];
  for (int step = 0; step < steps; ++step) {
    uint32_t x = random() % buffers, y = random() % buffers, v = random() % 1000;
    switch (random() % 40) {
      case 0: {  // go on on the other stream
        CommandStream* next = streams[s == streams[0]];
        auto marker = s->record(random() % 2 == 0);
        next->wait_for(marker);
        s->release(marker);
        s = next;
        break;
      }
      case 1: {
        uint32_t begin = random() % n, count = 1 + random() % (n - begin);
        std::fill_n(host[x].begin() + begin, count, v);
        s->fill(device[x]->address() + 4 * begin, 4 * count, v);
        break;
      }
      case 2: case 3: {
        uint32_t from = random() % n, to = random() % n, count = 1 + random() % (n - std::max(from, to));
        if (x == y) break;
        std::copy_n(host[y].begin() + from, count, host[x].begin() + to);
        s->copy(device[x]->address() + 4 * to, device[y]->address() + 4 * from, 4 * count);
        break;
      }
      case 4: {
        uint32_t begin = random() % n, count = 1 + random() % (n - begin);
        auto words = counting(count, v);
        std::copy(words.begin(), words.end(), host[x].begin() + begin);
        s->upload(device[x]->address() + 4 * begin, words.data(), 4 * count);
        break;
      }
      case 5: if (step % 4 == 0) CHECK(read(*s, *device[x]) == host[x]); break;
      case 6: s->flush(); break;
      default:
        if (random() % 2) {
          const uint32_t factor = factor_of(v);
          for (uint32_t i = 0; i < n; ++i) host[x][i] = host[y][i] * factor + v;
          scale_add(*s, *device[x], *device[y], factor, v);
        } else {
          for (uint32_t i = 0; i < n; ++i) host[x][i] = host[y][i] + v;
          ring_add(*s, *device[x], *device[y], v);
        }
    }
  }
  for (uint32_t i = 0; i < buffers; ++i) CHECK(read(*s, *device[i]) == host[i]);
}

inline void stress() {
  random_work(6000, [](uint32_t v) { return v % 5; });
}

// A third of the dispatches needs a new pipeline, for which the driver takes up to 4 ms.
inline void cold_stress() {
  SlowDriver driver(0);
  random_work(900, [&](uint32_t v) {
    driver.pause_ms = static_cast<int>(v % 5);
    return v % 3 == 0 ? fresh_factor() : v % 5;
  });
}

}  // namespace aule

// Loops around a driver's limit: what is cut is reported, and what is reported is cut (test/cpp/shaders.py, "walk").
#pragma once
#include "fixture.h"
#include "vulkan/device_impl.h"
#include "vulkan/loop_probe.h"

namespace aule {

inline uint32_t walked(uint32_t kind, uint32_t n, uint32_t m, uint32_t id) {
  switch (kind) {
    case 0: return n;
    case 1: return n * m;
    case 2: return n * 3 + m;
    case 3: return id % 2 == 0 ? n : m;
    case 4: return std::min(n, m);
    case 5: return n;
    case 6: return n * m;
    default: return n * 3 + (n > 11 ? (n - 11) * m : 0);
  }
}

struct Walk {
  bool right, reported;
};

inline Walk walk(uint32_t kind, uint32_t n, uint32_t m, uint32_t lanes) {
  auto& s = main_stream();
  Words out(64);
  s.fill(out.address(), out.bytes(), 0xffffffffu);
  Args args;
  WalkParams p{args.write(out.address(), out.bytes()), n, m, lanes, 0};
  launch(s, KernelRef<WalkParams, WalkSpec>{kWalk}, {.kind = kind}, p, args, Grid{2});
  Walk result{true, false};
  try {
    s.synchronize();
  } catch (const vulkan::Error& error) {
    result.reported = true;
    const std::string text = error.what();
    CHECK(text.find("walk(" + std::to_string(kind) + ")") == 0 && text.find("results are incomplete") != text.npos);
  }
  const auto got = read(s, out);  // reported once only
  for (uint32_t id = 0; id < 64; ++id) {
    const uint32_t length = n + (lanes == 0 ? 0 : id % lanes);
    // All invocations of kind 6 take the count of the sixth one of their workgroup.
    const uint32_t of = kind == 6 ? n + (lanes == 0 ? 0 : (id / 32 * 32 + 5) % lanes) : length;
    result.right &= got[id] == walked(kind, of, m, id);
  }
  return result;
}

inline void long_loops() {
  const uint32_t limit = vulkan::Device::get(0).profile().driver_loop_limit;
  uint32_t cut = 0, whole = 0;
  auto check = [&](uint32_t kind, uint32_t n, uint32_t m, uint32_t lanes) {
    const Walk w = walk(kind, n, m, lanes);
    if (!w.right && !w.reported) std::fprintf(stderr, "unnoticed: kind %u, n %u, m %u, lanes %u\n", kind, n, m, lanes);
    CHECK(w.right || w.reported);
    CHECK(limit != 0 || !w.reported);
    ++(w.right ? whole : cut);
    return w;
  };
  const uint32_t at = limit != 0 ? limit : vulkan::kAssumedLoopLimit;
  for (uint32_t lanes : {0u, 5u, 9u}) {
    for (uint32_t kind = 0; kind < 8; ++kind) {
      CHECK(!check(kind, 100, 7, lanes).reported);  // far from it
      check(kind, 3 * at, 2, lanes);
      check(kind, 2, 3 * at, lanes);
    }
    for (uint32_t n = at - 12; n < at + 4; ++n) {  // one more, one less
      check(0, n, 0, lanes);
      check(4, n, 0xffffff, lanes);
      check(5, n, 0, lanes);
      check(2, n / 2, n - n / 2, lanes);
      check(3, n / 2, n - n / 2, lanes);
      check(1, n / 5, 5, lanes);
      check(1, 1, n / 2, lanes);
      check(7, n / 8, 3, lanes);
      check(6, n / 64, 64, lanes);
    }
  }
  CHECK(!check(0, at / 2, 0, 0).reported && !check(0, at / 2, 0, 0).reported);  // each dispatch counts anew
  CHECK(limit == 0 ? cut == 0 : cut > 50 && whole > 50);
}

}  // namespace aule

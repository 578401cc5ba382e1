#include "ops/fft/plan.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <vector>

#include "kernels_fft.gen.h"

namespace aule::ops {
namespace {

constexpr uint64_t kMostPoints = 4096;  // of one pass: its roots are a table of their own

using Radices = c10::SmallVector<int, 8>;
constexpr std::array kRadices = {16, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2};

// `depth` radices whose product is n, none above `most`, with the smallest largest one.
std::optional<Radices> factors_of(uint64_t n, size_t depth, int most) {
  if (depth == 0) return n == 1 ? std::optional(Radices{}) : std::nullopt;
  std::optional<Radices> best;
  for (const int r : kRadices) {
    if (r > most || n % static_cast<uint64_t>(r) != 0) continue;
    // Radices fall, so r^depth is the most that they reach.
    if (std::pow(static_cast<double>(r), static_cast<double>(depth)) < static_cast<double>(n) * 0.999) break;
    auto rest = factors_of(n / static_cast<uint64_t>(r), depth - 1, r);
    if (!rest) continue;
    rest->insert(rest->begin(), r);
    best = std::move(rest);
  }
  return best;
}

// As few as can be, from `least` on; nothing if there are none up to `most`.
std::optional<Radices> fewest_factors(uint64_t n, size_t least, size_t most, int largest = kRadices.front()) {
  for (size_t depth = least; depth <= most; ++depth)
    if (auto found = factors_of(n, depth, largest)) return found;
  return std::nullopt;
}

// A product of powers of 2, 3, 5 and 7 that is no less: one with few radices, unless it is much longer than others.
uint64_t convolution_length(uint64_t least) {
  uint64_t best = 0, best_cost = 0;
  for (uint64_t p7 = 1; p7 < 2 * least; p7 *= 7)
    for (uint64_t p5 = p7; p5 < 2 * least; p5 *= 5)
      for (uint64_t p3 = p5; p3 < 2 * least; p3 *= 3) {
        uint64_t candidate = p3;
        while (candidate < least) candidate *= 2;
        if (best != 0 && candidate >= best_cost) continue;
        const uint64_t cost = candidate * fewest_factors(candidate, 1, 31)->size();
        if (best == 0 || cost < best_cost) {
          best = candidate;
          best_cost = cost;
        }
      }
  return best;
}

uint64_t shared_bytes_of(DType real, const FftPass& pass) {
  FftSpec spec{.r0 = pass.radices[0],
               .r1 = pass.radices[1],
               .r2 = pass.radices[2],
               .r3 = pass.radices[3],
               .r4 = pass.radices[4]};
  spec.columns = static_cast<int>(pass.columns);
  spec.planes = static_cast<int>(pass.planes);
  return shared_bytes(kernel::fft(real, 1), spec);
}

FftPass register_pass(const DeviceProfile& profile, int radix) {
  FftPass pass{.radix = static_cast<uint32_t>(radix)};
  pass.radices[0] = radix;
  pass.points = pass.radix;
  pass.columns = pass.local = profile.is_software() ? 16 : 64;
  return pass;
}

// A workgroup's shared memory: what every device has, and what its largest transform takes where there is more.
uint64_t shared_limit(const DeviceProfile& profile) { return std::min<uint64_t>(profile.shared_bytes, 48 * 1024); }

std::optional<FftPass> group_pass(const DeviceProfile& profile, DType real, uint64_t radix, uint32_t least_columns) {
  // Passes wait for each other, so they are few. But 16 doubles take too many registers.
  std::optional<Radices> radices;
  if (real == DType::f64) radices = fewest_factors(radix, 2, kInnerPasses, 9);
  if (!radices) radices = fewest_factors(radix, 2, kInnerPasses);
  if (!radices) return std::nullopt;
  FftPass pass{.by_group = true, .radix = static_cast<uint32_t>(radix)};
  std::copy(radices->begin(), radices->end(), pass.radices.begin());
  for (const int r : *radices) {
    const auto together = static_cast<uint64_t>(radices->front() / r);  // butterflies of an invocation
    pass.t = std::max(pass.t, narrow<uint32_t>(ceil_div(radix / static_cast<uint64_t>(r), together)));
  }
  for (const int r : *radices)
    pass.points = std::max(pass.points, narrow<uint32_t>(static_cast<uint64_t>(r) *
                                                         ceil_div(radix / static_cast<uint64_t>(r), uint64_t{pass.t})));
  const uint32_t most_local = std::min<uint32_t>(profile.max_workgroup_invocations, 1024);
  pass.columns = std::max(least_columns, std::max<uint32_t>(1, 128 / pass.t));
  pass.columns = std::min(pass.columns, most_local / pass.t);
  while (pass.columns > 1 && shared_bytes_of(real, pass) > shared_limit(profile)) pass.columns /= 2;
  if (pass.columns == 0 || shared_bytes_of(real, pass) > shared_limit(profile)) return std::nullopt;
  pass.local = pass.columns * pass.t;
  // Both parts at once take half the barriers, as long as several workgroups find room.
  pass.planes = 2;
  if (shared_bytes_of(real, pass) > std::min<uint64_t>(profile.shared_bytes, 20 * 1024)) pass.planes = 1;
  return pass;
}

std::optional<FftPass> pass_of(const DeviceProfile& profile, DType real, uint64_t radix, uint32_t least_columns) {
  if (!profile.is_software() && radix > 7)
    if (auto pass = group_pass(profile, real, radix, least_columns)) return pass;
  if (radix == 1 || std::find(kRadices.begin(), kRadices.end(), static_cast<int>(radix)) != kRadices.end())
    return register_pass(profile, static_cast<int>(radix));
  return std::nullopt;
}

uint32_t line_columns(DType real) { return real == DType::f64 ? kLineColumns / 2 : kLineColumns; }

// The most points of one pass among several, with whole lines of columns beside each other.
uint64_t most_points_across(const DeviceProfile& profile, DType real) {
  return shared_limit(profile) / (dtype_size(real) * line_columns(real)) * 31 / 32;
}

// Divisors of `rest` for `count` passes, each near the others.
bool divide(const DeviceProfile& profile, DType real, uint64_t rest, int count, std::vector<uint64_t>& parts) {
  const uint64_t limit = std::min<uint64_t>(1024, most_points_across(profile, real));
  if (count == 1) {
    if (rest > limit || !pass_of(profile, real, rest, line_columns(real))) return false;
    parts.push_back(rest);
    return true;
  }
  const double wanted = std::pow(static_cast<double>(rest), 1.0 / count);
  std::vector<uint64_t> divisors;
  for (uint64_t d = 2; d <= limit && d < rest; ++d)
    if (rest % d == 0) divisors.push_back(d);
  std::sort(divisors.begin(), divisors.end(), [&](uint64_t a, uint64_t b) {
    return std::abs(std::log(static_cast<double>(a) / wanted)) < std::abs(std::log(static_cast<double>(b) / wanted));
  });
  for (const uint64_t d : divisors) {
    if (!pass_of(profile, real, d, line_columns(real))) continue;
    parts.push_back(d);
    if (divide(profile, real, rest / d, count - 1, parts)) return true;
    parts.pop_back();
  }
  return false;
}

void add_passes(const DeviceProfile& profile, const FftProblem& problem, FftPlan& plan) {
  const DType real = problem.real;
  const bool across = !problem.in_is_dense || !problem.out_is_dense;
  if (plan.core <= kMostPoints) {
    if (auto pass = pass_of(profile, real, plan.core, across ? line_columns(real) : 1)) {
      pass->loads_across = !problem.in_is_dense;
      pass->stores_across = !problem.out_is_dense;
      plan.passes.push_back(*pass);
      return;
    }
  }
  std::vector<uint64_t> parts;
  if (profile.is_software()) {
    const auto radices = fewest_factors(plan.core, 1, 31);
    TORCH_INTERNAL_ASSERT(radices);
    parts.assign(radices->begin(), radices->end());
  } else {
    for (int count = 2; parts.empty(); ++count) {
      TORCH_INTERNAL_ASSERT(count < 32);
      divide(profile, real, plan.core, count, parts);
    }
  }
  // The first pass writes whole columns, one behind the other; later ones write, and all read, columns side by side.
  for (const uint64_t radix : parts) {
    FftPass pass = *pass_of(profile, real, radix, line_columns(real));
    pass.loads_across = true;
    pass.stores_across = plan.sequence_first || !plan.passes.empty();
    plan.passes.push_back(pass);
  }
}

}  // namespace

bool is_smooth(uint64_t n) {
  for (const uint64_t prime : {2, 3, 5, 7, 11, 13})
    while (n % prime == 0) n /= prime;
  return n == 1;
}

FftPlan fft_plan(const DeviceProfile& profile, const FftProblem& problem) {
  FftPlan plan;
  // Pairs of reals as complex numbers halve the work. One pass of a GPU waits for memory and not for arithmetic, so the
  // reals are complex numbers there, where a kernel of its own would have to take the pairs apart.
  const bool one_pass = problem.n <= kMostPoints && pass_of(profile, problem.real, problem.n, 1).has_value();
  const bool is_even = problem.n % 2 == 0;
  const bool pairs = is_even && ((problem.kind == FftKind::real_to_half && !one_pass) ||
                                 (problem.kind == FftKind::half_to_real && problem.n > 2));
  plan.n = pairs ? problem.n / 2 : problem.n;
  plan.core = is_smooth(plan.n) ? plan.n : convolution_length(2 * plan.n - 1);
  switch (problem.kind) {
    case FftKind::complex: break;
    case FftKind::real_to_full: plan.load = FftLoad::real; break;
    case FftKind::real_to_half:
      plan.load = pairs ? FftLoad::pair : FftLoad::real;
      plan.store = pairs ? FftStore::complex : FftStore::half;
      plan.splits = pairs;
      break;
    case FftKind::half_to_real:
      plan.load = pairs ? FftLoad::halves : FftLoad::hermitian;
      plan.store = pairs ? FftStore::pair : FftStore::real;
  }
  plan.sequence_first =
      !problem.in_is_dense && !problem.out_is_dense && problem.neighbours >= line_columns(problem.real);
  add_passes(profile, problem, plan);
  return plan;
}

std::string text_of(const FftPlan& plan) {
  static constexpr const char* kLoads[] = {"complex", "reals", "pairs", "hermitian", "halves"};
  static constexpr const char* kStores[] = {"complex", "reals", "pairs", "half"};
  std::ostringstream text;
  text << kLoads[static_cast<size_t>(plan.load)] << " to " << kStores[static_cast<size_t>(plan.store)];
  if (plan.splits) text << ", split";
  if (plan.convolves()) text << ", " << plan.n << " by chirp";
  if (plan.sequence_first) text << ", sequences first";
  for (const FftPass& pass : plan.passes) {
    text << "; " << pass.radix;
    if (pass.by_group) {
      text << " =";
      for (const int r : pass.radices)
        if (r > 1) text << ' ' << r;
      text << " by " << pass.t << ", planes " << pass.planes;
    }
    text << ", columns " << pass.columns << " points " << pass.points;
    if (pass.loads_across || pass.stores_across)
      text << (pass.loads_across && pass.stores_across ? " across"
               : pass.loads_across                     ? " loads across"
                                                       : " stores across");
  }
  return text.str();
}

}  // namespace aule::ops

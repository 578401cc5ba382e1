#include "ops/conv/halves_plan.h"

#include <algorithm>

#include "ops/tensor/loop_limit.h"

namespace aule::ops {
namespace {

using Extent = ConvGeometry::Extent;

// Iterations of loops over `e`, one in the other.
uint64_t nested(const Extent& e) {
  return static_cast<uint64_t>(e[0]) * (1 + static_cast<uint64_t>(e[1]) * (1 + static_cast<uint64_t>(e[2])));
}
size_t longest(const Extent& e) { return static_cast<size_t>(std::max_element(e.begin(), e.end()) - e.begin()); }

// No more taps of a side than there are windows lead from an element of the image into one.
uint64_t fold_walk(const ConvGeometry& g) {
  const auto hit = [&](size_t d) { return static_cast<uint64_t>(std::min(g.kernel[d], g.out_size[d])); };
  const auto all = [&](size_t d) { return static_cast<uint64_t>(g.kernel[d]); };
  return all(0) + hit(0) * (all(1) + hit(1) * all(2));
}

// Iterations of one invocation.
uint64_t direct_walk(const DirectProblem& p) {
  const auto n = static_cast<uint64_t>(p.summed), taps = static_cast<uint64_t>(p.g.taps());
  if (p.pass == ConvPass::weight) return n * (nested(p.g.out_size) + 1);
  return p.pass == ConvPass::forward ? n * (taps + 1) : taps * (n + 4);
}

}  // namespace

ConvGeometry with_taps(ConvGeometry g, size_t d, int64_t first, int64_t count) {
  g.pad[d] -= static_cast<int32_t>(first) * g.dilation[d];
  g.kernel[d] = static_cast<int32_t>(count);
  return g;
}

DirectProblem part_of(const DirectProblem& problem, size_t axis, int64_t from, int64_t count) {
  DirectProblem part = problem;
  if (axis == kSummedAxis) {
    part.summed = count;
  } else if (problem.pass == ConvPass::weight) {
    part.g.out_size[axis] = static_cast<int32_t>(count);
    part.g.pad[axis] -= static_cast<int32_t>(from) * problem.g.stride[axis];
  } else {
    part.g = with_taps(problem.g, axis, from, count);
  }
  return part;
}

std::optional<HalvesPlan> direct_plan(const Caps& caps, const DirectProblem& problem) {
  HalvesPlan plan;
  if (may_walk(caps, direct_walk(problem))) return plan;
  const Extent& sides = problem.pass == ConvPass::weight ? problem.g.out_size : problem.g.kernel;
  const size_t side = longest(sides);
  plan.axis = sides[side] > problem.summed ? side : kSummedAxis;
  const int64_t size = std::max<int64_t>(sides[side], problem.summed);
  if (size <= 1) return {};
  plan.first = size / 2;
  plan.rest = size - plan.first;
  for (const auto& [from, count] : {std::pair{int64_t{0}, plan.first}, {plan.first, plan.rest}}) {
    auto half = direct_plan(caps, part_of(problem, plan.axis, from, count));
    if (!half) return {};
    plan.halves.push_back(std::move(*half));
  }
  return plan;
}

HalvesPlan fold_plan(const Caps& caps, const ConvGeometry& g) {
  HalvesPlan plan;
  if (g.taps() <= 1 || may_walk(caps, fold_walk(g))) return plan;
  plan.axis = longest(g.kernel);
  plan.first = g.kernel[plan.axis] / 2;
  plan.rest = g.kernel[plan.axis] - plan.first;
  plan.halves.push_back(fold_plan(caps, with_taps(g, plan.axis, 0, plan.first)));
  plan.halves.push_back(fold_plan(caps, with_taps(g, plan.axis, plan.first, plan.rest)));
  return plan;
}

std::string text_of(const HalvesPlan& plan) {
  if (plan.halves.empty()) return "at once";
  static constexpr const char* kAxes[] = {"depth", "height", "width", "summed"};
  const std::string a = text_of(plan.halves[0]), b = text_of(plan.halves[1]);
  return std::string(kAxes[plan.axis]) + " " + std::to_string(plan.first) + "+" + std::to_string(plan.rest) + " (" +
         (a == b ? "both " + a : a + ", " + b) + ")";
}

}  // namespace aule::ops

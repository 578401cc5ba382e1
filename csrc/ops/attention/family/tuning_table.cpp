#include "ops/attention/family/tuning_table.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string_view>

namespace aule::ops {
namespace {

using A = Architecture;

// Timings of these and other shapes: docs/ladders.
// 32 rows of a subgroup where registers allow, so that each loaded operand feeds two products, and workgroups of four
// subgroups with at most 24 KiB of shared memory, of which a multiprocessor holds two.
constexpr CoopMatEntry kForward[] = {
    {32, 4, 2, 32, 2, 1, 1},     {64, 4, 2, 64, 2, 1, 1},     {80, 4, 2, 32, 1, 1},       {96, 4, 2, 32, 2, 1, 1},
    {128, 8, 2, 32, 1, 1, 0, 1}, {192, 8, 1, 32, 2, 1, 0, 1}, {256, 8, 1, 16, 1, 2, 0, 2}};
constexpr CoopMatEntry kForwardMasked[] = {{64, 4, 2, 64, 2, 1},        {80, 4, 2, 32, 1, 1},
                                           {96, 4, 2, 32, 2, 1, 1},     {128, 4, 2, 32, 1, 1},
                                           {192, 8, 1, 32, 2, 1, 0, 1}, {256, 8, 1, 16, 1, 2, 0, 2}};
// With bias or soft cap.
constexpr CoopMatEntry kForwardModified[] = {{32, 4, 2, 32, 2, 1, 1}, {64, 4, 2, 32, 2, 1},  {80, 4, 2, 32, 1, 1},
                                             {96, 4, 2, 32, 2, 1, 1}, {128, 8, 2, 32, 1, 2}, {192, 8, 1, 32, 2, 1},
                                             {256, 8, 1, 16, 1, 2}};
// Backward: two operands stay in registers beside the accumulators, so 16 rows of a subgroup are what fits at D 128,
// and wider heads are shared by two subgroups. dQ at D 192 has 32 rows, each with half of its columns.
constexpr CoopMatEntry kDq[] = {
    {64, 4, 2, 64, 1, 1}, {128, 8, 1, 64, 1, 1}, {192, 8, 2, 16, 1, 2}, {256, 8, 1, 32, 2, 1}};
constexpr CoopMatEntry kDkDv[] = {
    {64, 4, 2, 64, 1, 1}, {128, 8, 1, 64, 1, 1}, {192, 8, 1, 32, 2, 1}, {256, 8, 1, 16, 1, 2}};

// Shapes that RADV compiles for RDNA3 without spilled vector registers (benchmarks/results/chips-mesa-26.2.md): from
// D 128 on, two subgroups share the rows of the backward. None was found for D 256, which the family simt serves.
constexpr CoopMatEntry kForwardUnknown[] = {{64, 4, 2, 64, 4, 1}, {128, 4, 1, 32, 1, 1}, {192, 4, 1, 16, 1, 1}};
constexpr CoopMatEntry kDqUnknown[] = {
    {64, 4, 1, 64, 1, 1}, {96, 4, 1, 32, 1, 1}, {128, 4, 1, 32, 1, 1, 0, 0, 2}, {192, 4, 1, 16, 1, 1}};
constexpr CoopMatEntry kDkDvUnknown[] = {
    {64, 4, 1, 32, 1, 1}, {96, 4, 1, 32, 1, 1}, {128, 4, 1, 32, 1, 1, 0, 0, 2}, {192, 4, 1, 16, 1, 1}};

// Software devices: few registers, and one copy of each loop's body, because the driver compiles slowly.
constexpr SimtShape kSoftwareShape{128, 8, 4, 4, 32, 4, 1, 1, 1, 128};
// Any GPU: no spilled register on RDNA2 and RDNA3 (RADV 25.0), 17 KiB of shared memory at 128 columns.
constexpr SimtShape kModestShape{128, 8, 4, 4, 16, 1, 2, 1, 4, 128};
// 255 registers and 48 KiB of shared memory: 8 x 8 scores of an invocation if it has no second tile of scores.
constexpr SimtShape kForwardWide64{128, 8, 8, 8, 8, 1, 2, 2, 8, 64};
constexpr SimtShape kForwardWide{256, 16, 8, 8, 8, 1, 2, 2, 16, 128};
constexpr SimtShape kBackwardWide{256, 16, 8, 4, 16, 1, 2, 4, 16, 128};
constexpr SimtShape kDkDvWide128{256, 16, 4, 4, 16, 1, 2, 4, 16, 128};  // two results of 128 columns

enum Table : uint8_t { forward, forward_masked, forward_modified, dq, dkdv, kTables };
// Their names in the file of measured shapes, and the overrides of their entries.
constexpr std::string_view kNames[kTables] = {"forward", "forward_banded", "forward_modified", "dq", "dkdv"};
constexpr Numbers Overrides::* kReplaced[kTables] = {&Overrides::attention_shape, &Overrides::attention_shape,
                                                     &Overrides::attention_shape, &Overrides::attention_shape_dq,
                                                     &Overrides::attention_shape_dkdv};

struct Tuning {
  std::span<const Architecture> architectures;  // none: all that no row above has
  std::array<std::span<const CoopMatEntry>, kTables> coopmat;
  bool wide_simt = false;  // registers and shared memory for the wide shapes
  FamilyLimits limits;
};
using CoopMatTables = std::array<std::span<const CoopMatEntry>, kTables>;
// Measured on an H200; the other generations have as many registers and as much shared memory, but slower memory.
constexpr Architecture kHopper[] = {A::hopper};
constexpr Architecture kNvidia[] = {A::turing, A::ampere, A::ada, A::blackwell, A::nvidia};
constexpr Architecture kAmd[] = {A::gcn,   A::rdna1, A::rdna2, A::rdna3, A::rdna4,
                                 A::cdna1, A::cdna2, A::cdna3, A::cdna4, A::amd};
constexpr CoopMatTables kTablesNvidia{kForward, kForwardMasked, kForwardModified, kDq, kDkDv};
constexpr CoopMatTables kTablesUnknown{kForwardUnknown, kForwardUnknown, kForwardUnknown, kDqUnknown, kDkDvUnknown};
constexpr Tuning kTunings[] = {
    {kHopper, kTablesNvidia, true, {.ds_workspace_dim = 96}},
    {kNvidia, kTablesNvidia, true, {}},
    // Wider heads spill registers on RDNA3 if the layout is unknown. On CDNA3, 512 invocations have 128 registers each,
    // too few for the loads in flight.
    {kAmd, kTablesUnknown, false, {.opaque_dim = 192, .splitkv_local = 256}},
    {{}, kTablesUnknown, false, {}},
};

const Tuning& tuning_of(const DeviceProfile& profile) {
  return *std::find_if(std::begin(kTunings), std::prev(std::end(kTunings)), [&](const Tuning& t) {
    return std::find(t.architectures.begin(), t.architectures.end(), profile.architecture) != t.architectures.end();
  });
}

bool sound(const CoopMatEntry& e) {
  return e.dim >= 16 && e.dim <= 256 && e.subgroups >= 1 && e.subgroups <= 32 && e.row_blocks >= 1 &&
         e.row_blocks <= 4 && e.tile >= 8 && e.tile <= 128 && e.tile % 8 == 0 && e.blocks_in_flight >= 1 &&
         e.stages >= 1 && e.stages <= 2 && e.motion_barriers >= 0 && e.motion_barriers <= 2;
}

// Numbers into the members from `subgroups` on; false: too few, or no kernel can be made of them.
bool read_entry(CoopMatEntry& e, std::span<const int> numbers) {
  int* const members[] = {&e.subgroups, &e.row_blocks,  &e.tile,           &e.blocks_in_flight,
                          &e.stages,    &e.from_global, &e.motion_barriers};
  if (numbers.size() < 5) return false;
  for (size_t i = 0; i < std::min(numbers.size(), std::size(members)); ++i) *members[i] = numbers[i];
  return sound(e);
}

// The nearest of the measured lines "pass dim subgroups row_blocks ...".
CoopMatEntry find_measured(const DeviceProfile& profile, std::string_view pass, int dim) {
  CoopMatEntry best;
  for (const MeasuredShape& line : profile.measured_shapes) {
    if (line.pass != pass || line.numbers[0] < dim || (best.dim != 0 && line.numbers[0] >= best.dim)) continue;
    CoopMatEntry e{line.numbers[0]};
    if (read_entry(e, std::span(line.numbers).subspan(1))) best = e;
  }
  return best;
}

CoopMatEntry find(std::span<const CoopMatEntry> entries, int dim) {
  const auto found = std::find_if(entries.begin(), entries.end(), [&](const CoopMatEntry& e) { return dim <= e.dim; });
  return found == entries.end() ? CoopMatEntry{} : *found;
}

// One driver hangs if a kernel has more shared memory than the device.
bool fits(const SimtShape& s, const DeviceProfile& profile, AttentionPass pass, int64_t dim) {
  SimtSpec spec;
  set_plan(spec, s, simt_columns(s, dim));
  spec.dropout = true;  // and row sums without shuffles: the most that it may take
  const uint64_t bytes = pass == AttentionPass::forward ? shared_bytes(kernel::flash_attn_fwd_simt(0), spec)
                         : pass == AttentionPass::dq    ? shared_bytes(kernel::flash_attn_bwd_dq_simt(0), spec)
                                                        : shared_bytes(kernel::flash_attn_bwd_dkdv_simt(0), spec);
  return bytes <= profile.shared_bytes && static_cast<uint32_t>(s.local) <= profile.max_workgroup_invocations;
}

bool sound(const SimtShape& s) {
  const auto byte = [](int x) { return x >= 1 && x <= 255; };
  if (!byte(s.lanes) || !byte(s.columns) || !byte(s.depth) || !byte(s.strip) || !byte(s.unroll_scores) ||
      !byte(s.unroll_result) || s.lanes > 32 || (s.lanes & (s.lanes - 1)) != 0)
    return false;
  return s.local >= 8 && s.local <= 1024 && s.local % s.lanes == 0 && s.rows >= 4 && s.rows % 4 == 0 && s.rows <= 16 &&
         s.depth % (4 * s.unroll_scores) == 0 && s.columns % s.strip == 0 && s.strip * s.lanes % s.unroll_result == 0 &&
         s.stages >= 1 && s.stages <= 2 && s.most >= 4 * s.lanes && s.most % (4 * s.lanes) == 0;
}

bool read_shape(SimtShape& s, const Numbers& asked) {
  int* const members[] = {&s.local, &s.lanes,  &s.rows,          &s.columns,       &s.depth,
                          &s.strip, &s.stages, &s.unroll_scores, &s.unroll_result, &s.most};
  const auto count = static_cast<size_t>(asked.count);
  if (count < 9) return false;
  for (size_t i = 0; i < std::min(std::size(members), count); ++i) *members[i] = asked.values[i];
  return sound(s);
}

}  // namespace

FamilyLimits family_limits(const DeviceProfile& profile) { return tuning_of(profile).limits; }

int simt_columns(const SimtShape& shape, int64_t dim) {
  const int64_t step = 4 * shape.lanes;
  return static_cast<int>(std::min(round_up(dim, step), int64_t{shape.most}));
}

std::optional<SimtShape> simt_shape(const DeviceProfile& profile, AttentionPass pass, int64_t dim, int64_t length,
                                    const Overrides& overrides) {
  const Numbers& asked = pass == AttentionPass::forward ? overrides.attention_tiles
                         : pass == AttentionPass::dq    ? overrides.attention_tiles_dq
                                                        : overrides.attention_tiles_dkdv;
  if (SimtShape s; read_shape(s, asked) && fits(s, profile, pass, dim)) return s;
  SimtShape shape = profile.is_software() ? kSoftwareShape : kModestShape;
  if (length <= 64) {  // one block of rows, no longer than it must be
    shape.local = length <= 16 ? 4 * shape.lanes : length <= 32 ? 8 * shape.lanes : shape.local;
  } else if (tuning_of(profile).wide_simt && !profile.is_software()) {
    SimtShape wide = kBackwardWide;
    if (pass == AttentionPass::forward) wide = dim <= 64 ? kForwardWide64 : kForwardWide;
    if (pass == AttentionPass::dkdv && dim > 64) wide = kDkDvWide128;
    if (fits(wide, profile, pass, dim)) shape = wide;
  }
  while (!fits(shape, profile, pass, dim)) {
    if (shape.most <= 32) return {};
    shape.most /= 2;
  }
  return shape;
}

CoopMatEntry coopmat_entry(const DeviceProfile& profile, const AttentionProblem& problem, AttentionPass pass, int dim,
                           const Overrides& overrides) {
  const Table table = pass == AttentionPass::dq                     ? dq
                      : pass == AttentionPass::dkdv                 ? dkdv
                      : !has_unmodified_tiles(problem)              ? forward_modified
                      : problem.masked || problem.mask.has_blocks() ? forward_masked  // workgroups of 128 rows
                                                                    : forward;
  const CoopMatEntry shipped = find(tuning_of(profile).coopmat[table], dim),
                     measured = find_measured(profile, kNames[table], dim);
  // The nearer one, or the measured one if both are as near.
  CoopMatEntry entry = measured.dim != 0 && (shipped.dim == 0 || measured.dim <= shipped.dim) ? measured : shipped;
  const Numbers& asked = overrides.*kReplaced[table];
  CoopMatEntry other{entry.dim};
  other.role_split = entry.role_split;
  if (entry.dim != 0 && read_entry(other, std::span(asked.values).first(static_cast<size_t>(asked.count))))
    entry = other;
  return entry;
}

}  // namespace aule::ops

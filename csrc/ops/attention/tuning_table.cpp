#include "ops/attention/tuning_table.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "core/environment.h"

namespace aule::ops {
namespace {

// What was tried and its timings stand in the shaders' head comments.
// 32 rows of a subgroup where registers allow, so that each loaded operand feeds two products, and workgroups of four
// subgroups with at most 24 KiB of shared memory, of which a multiprocessor holds two.
constexpr MatrixShape kForward[] = {
    {32, 4, 2, 32, 2, 1, 1},     {64, 4, 2, 64, 2, 1, 1},     {80, 4, 2, 32, 1, 1},       {96, 4, 2, 32, 2, 1, 1},
    {128, 8, 2, 32, 1, 1, 0, 1}, {192, 8, 1, 32, 2, 1, 0, 1}, {256, 8, 1, 16, 1, 2, 0, 2}};
constexpr MatrixShape kForwardBanded[] = {{64, 4, 2, 64, 2, 1},        {80, 4, 2, 32, 1, 1},
                                          {96, 4, 2, 32, 2, 1, 1},     {128, 4, 2, 32, 1, 1},
                                          {192, 8, 1, 32, 2, 1, 0, 1}, {256, 8, 1, 16, 1, 2, 0, 2}};
// With bias or soft cap.
constexpr MatrixShape kForwardModified[] = {{32, 4, 2, 32, 2, 1, 1}, {64, 4, 2, 32, 2, 1},  {80, 4, 2, 32, 1, 1},
                                            {96, 4, 2, 32, 2, 1, 1}, {128, 8, 2, 32, 1, 2}, {192, 8, 1, 32, 2, 1},
                                            {256, 8, 1, 16, 1, 2}};
// Backward: two operands stay in registers beside the accumulators, so 16 rows of a subgroup are what fits at D 128,
// and wider heads are shared by two subgroups. dQ at D 192 has 32 rows, each with half of its columns.
constexpr MatrixShape kDq[] = {
    {64, 4, 2, 64, 1, 1}, {128, 8, 1, 64, 1, 1}, {192, 8, 2, 16, 1, 2}, {256, 8, 1, 32, 2, 1}};
constexpr MatrixShape kDkDv[] = {
    {64, 4, 2, 64, 1, 1}, {128, 8, 1, 64, 1, 1}, {192, 8, 1, 32, 2, 1}, {256, 8, 1, 16, 1, 2}};

// Other vendors: shapes that RADV compiles for RDNA3 without spilled vector registers
// (benchmarks/results/chips-mesa-26.2.md): from D 128 backward two subgroups share the rows. None was found for D 256,
// which the portable kernels serve.
constexpr MatrixShape kForwardOthers[] = {{64, 4, 2, 64, 4, 1}, {128, 4, 1, 32, 1, 1}, {192, 4, 1, 16, 1, 1}};
constexpr MatrixShape kDqOthers[] = {
    {64, 4, 1, 64, 1, 1}, {96, 4, 1, 32, 1, 1}, {128, 4, 1, 32, 1, 1, 0, 0, 2}, {192, 4, 1, 16, 1, 1}};
constexpr MatrixShape kDkDvOthers[] = {
    {64, 4, 1, 32, 1, 1}, {96, 4, 1, 32, 1, 1}, {128, 4, 1, 32, 1, 1, 0, 0, 2}, {192, 4, 1, 16, 1, 1}};

struct Table {
  std::string_view name;  // in the file of measured shapes
  Numbers Overrides::* replaced;
  std::span<const MatrixShape> nvidia, others;
};
const std::array<Table, 5> kTables{
    {{"forward", &Overrides::attention_shape, kForward, kForwardOthers},
     {"forward_banded", &Overrides::attention_shape, kForwardBanded, kForwardOthers},
     {"dq", &Overrides::attention_shape_dq, kDq, kDqOthers},
     {"dkdv", &Overrides::attention_shape_dkdv, kDkDv, kDkDvOthers},
     {"forward_modified", &Overrides::attention_shape, kForwardModified, kForwardOthers}}};

bool sound(const MatrixShape& s) {
  return s.dim >= 16 && s.dim <= 256 && s.warps >= 1 && s.warps <= 32 && s.rows >= 1 && s.rows <= 4 && s.tile >= 8 &&
         s.tile <= 128 && s.tile % 8 == 0 && s.step >= 1 && s.stages >= 1 && s.stages <= 2 && s.fences >= 0 &&
         s.fences <= 2;
}

// Numbers from `first` on into the shape's members, in their order; false: too few, or no kernel can be made of them.
bool read_shape(MatrixShape& s, std::span<const int> numbers) {
  int* const members[] = {&s.warps, &s.rows, &s.tile, &s.step, &s.stages, &s.direct, &s.fences};
  if (numbers.size() < 5) return false;
  for (size_t i = 0; i < std::min(numbers.size(), std::size(members)); ++i) *members[i] = numbers[i];
  return sound(s);
}

// The nearest of the measured rows "pass dim warps rows tile step stages [direct [fences]]".
MatrixShape find_measured(const DeviceProfile& profile, std::string_view pass, int dim) {
  MatrixShape best;
  for (const MeasuredShape& row : profile.measured_shapes) {
    if (row.pass != pass || row.numbers[0] < dim || (best.dim != 0 && row.numbers[0] >= best.dim)) continue;
    MatrixShape s{row.numbers[0]};
    if (read_shape(s, std::span(row.numbers).subspan(1))) best = s;
  }
  return best;
}

MatrixShape find(std::span<const MatrixShape> rows, int dim) {
  const auto row = std::find_if(rows.begin(), rows.end(), [&](const MatrixShape& r) { return dim <= r.dim; });
  return row == rows.end() ? MatrixShape{} : *row;
}

// Software devices: few registers, one copy of each loop's body, for the driver compiles slowly.
constexpr TilesShape kSoftwareTiles{128, 8, 4, 4, 32, 4, 1, 1, 1, 128};
// Any GPU: no spilled register on RDNA2 and RDNA3 (RADV 25.0), 17 KiB of shared memory at 128 columns.
constexpr TilesShape kModestTiles{128, 8, 4, 4, 16, 1, 2, 1, 4, 128};
// 255 registers and 48 KiB of shared memory: 8 x 8 scores of an invocation where it has no second tile of scores.
constexpr TilesShape kForwardTiles64{128, 8, 8, 8, 8, 1, 2, 2, 8, 64};
constexpr TilesShape kForwardTiles{256, 16, 8, 8, 8, 1, 2, 2, 16, 128};
constexpr TilesShape kBackwardTiles{256, 16, 8, 4, 16, 1, 2, 4, 16, 128};
constexpr TilesShape kDkDvTiles128{256, 16, 4, 4, 16, 1, 2, 4, 16, 128};  // two results of 128 columns

// More shared memory than the device has is not refused by every driver: one hangs.
bool fits(const TilesShape& s, const DeviceProfile& caps, AttentionPass pass, int64_t dim) {
  TilesSpec spec;
  set_plan(spec, s, tiles_columns(s, dim));
  spec.dropout = true;  // and row sums without shuffles: the most that it may take
  const uint64_t bytes = pass == AttentionPass::forward ? shared_bytes(kernel::flash_attn_fwd(0), spec)
                         : pass == AttentionPass::dq    ? shared_bytes(kernel::flash_attn_bwd_dq(0), spec)
                                                        : shared_bytes(kernel::flash_attn_bwd_dkdv(0), spec);
  return bytes <= caps.shared_bytes && static_cast<uint32_t>(s.local) <= caps.max_workgroup_invocations;
}

bool sound(const TilesShape& s) {
  const auto byte = [](int x) { return x >= 1 && x <= 255; };
  if (!byte(s.lanes) || !byte(s.columns) || !byte(s.depth) || !byte(s.strip) || !byte(s.unroll_scores) ||
      !byte(s.unroll_result) || s.lanes > 32 || (s.lanes & (s.lanes - 1)) != 0)
    return false;
  return s.local >= 8 && s.local <= 1024 && s.local % s.lanes == 0 && s.rows >= 4 && s.rows % 4 == 0 && s.rows <= 16 &&
         s.depth % (4 * s.unroll_scores) == 0 && s.columns % s.strip == 0 && s.strip * s.lanes % s.unroll_result == 0 &&
         s.stages >= 1 && s.stages <= 2 && s.most >= 4 * s.lanes && s.most % (4 * s.lanes) == 0;
}

}  // namespace

int tiles_columns(const TilesShape& shape, int64_t dim) {
  const int64_t step = 4 * shape.lanes;
  return static_cast<int>(std::min((dim + step - 1) / step * step, int64_t{shape.most}));
}

TilesShape tiles_shape(const DeviceProfile& caps, AttentionPass pass, int64_t dim, int64_t length) {
  const bool forward = pass == AttentionPass::forward;
  TilesShape shape = caps.is_software() ? kSoftwareTiles : kModestTiles;
  const Overrides& replaced = overrides();
  const Numbers& asked = forward                     ? replaced.attention_tiles
                         : pass == AttentionPass::dq ? replaced.attention_tiles_dq
                                                     : replaced.attention_tiles_dkdv;
  if (asked.count >= 9) {
    TilesShape s;
    int* const members[] = {&s.local, &s.lanes,  &s.rows,          &s.columns,       &s.depth,
                            &s.strip, &s.stages, &s.unroll_scores, &s.unroll_result, &s.most};
    for (size_t i = 0; i < std::min(std::size(members), static_cast<size_t>(asked.count)); ++i)
      *members[i] = asked.values[i];
    if (sound(s) && fits(s, caps, pass, dim)) return s;
  }
  if (length <= 64) {  // one block of rows, no longer than it must be
    shape.local = length <= 16 ? 4 * shape.lanes : length <= 32 ? 8 * shape.lanes : shape.local;
  } else if (caps.vendor() == Vendor::nvidia && !caps.is_software()) {
    TilesShape wide = kBackwardTiles;
    if (forward) wide = dim <= 64 ? kForwardTiles64 : kForwardTiles;
    if (pass == AttentionPass::dkdv && dim > 64) wide = kDkDvTiles128;
    if (fits(wide, caps, pass, dim)) shape = wide;
  }
  while (!fits(shape, caps, pass, dim) && shape.most > 32) shape.most /= 2;
  return shape;
}

MatrixShape matrix_shape(const DeviceProfile& profile, AttentionPass pass, bool banded, bool plain, int dim) {
  const Table& table = kTables[pass == AttentionPass::dq ? 2 : pass == AttentionPass::dkdv ? 3 : !plain ? 4 : banded];
  const MatrixShape shipped = find(profile.vendor() == Vendor::nvidia ? table.nvidia : table.others, dim),
                    measured = find_measured(profile, table.name, dim);
  // The nearer row; a measured one where both are as near.
  MatrixShape shape = measured.dim != 0 && (shipped.dim == 0 || measured.dim <= shipped.dim) ? measured : shipped;
  const Numbers& asked = overrides().*table.replaced;
  MatrixShape other{shape.dim};
  other.parts = shape.parts;
  if (shape.dim != 0 && read_shape(other, std::span(asked.values).first(static_cast<size_t>(asked.count))))
    shape = other;
  return shape;
}

}  // namespace aule::ops

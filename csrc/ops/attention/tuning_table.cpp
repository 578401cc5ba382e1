#include "ops/attention/tuning_table.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/per_device.h"
#include "runtime/device_caps.h"

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
  const char* variable;
  std::span<const MatrixShape> nvidia, others;
};
const std::array<Table, 5> kTables{{{"forward", "AULE_ATTENTION_SHAPE", kForward, kForwardOthers},
                                    {"forward_banded", "AULE_ATTENTION_SHAPE", kForwardBanded, kForwardOthers},
                                    {"dq", "AULE_ATTENTION_SHAPE_DQ", kDq, kDqOthers},
                                    {"dkdv", "AULE_ATTENTION_SHAPE_DKDV", kDkDv, kDkDvOthers},
                                    {"forward_modified", "AULE_ATTENTION_SHAPE", kForwardModified, kForwardOthers}}};
using Measured = std::array<std::vector<MatrixShape>, kTables.size()>;

bool sound(const MatrixShape& s) {
  return s.dim >= 16 && s.dim <= 256 && s.warps >= 1 && s.warps <= 32 && s.rows >= 1 && s.rows <= 4 && s.tile >= 8 &&
         s.tile <= 128 && s.tile % 8 == 0 && s.step >= 1 && s.stages >= 1 && s.stages <= 2 && s.fences >= 0 &&
         s.fences <= 2;
}

// Lines "pass dim warps rows tile step stages [direct [fences]]"; others, and rows that make no kernel, are passed
// over.
Measured read_measured(const std::string& path) {
  Measured measured;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string pass;
    MatrixShape s;
    if (!(words >> pass >> s.dim >> s.warps >> s.rows >> s.tile >> s.step >> s.stages) || !sound(s)) continue;
    if (int direct = 0; words >> direct) s.direct = direct;
    if (int fences = 0; words >> fences) s.fences = fences;
    for (size_t i = 0; i < kTables.size(); ++i) {
      if (pass == kTables[i].name) measured[i].push_back(s);
    }
  }
  for (auto& rows : measured)
    std::sort(rows.begin(), rows.end(), [](const MatrixShape& a, const MatrixShape& b) { return a.dim < b.dim; });
  return measured;
}

const Measured& measured_on(int device) {
  struct File {
    std::once_flag read;
    Measured shapes;
  };
  static const PerDevice<File> files;
  File& file = files[device];
  std::call_once(file.read, [&] {
    const std::string path = runtime::tuning_file(static_cast<c10::DeviceIndex>(device));
    if (!path.empty()) file.shapes = read_measured(path);
  });
  return file.shapes;
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
bool fits(const TilesShape& s, const Caps& caps, AttentionPass pass, int64_t dim) {
  TilesSpec spec;
  set_plan(spec, s, tiles_columns(s, dim));
  spec.dropout = true;  // and row sums without shuffles: the most that it may take
  const uint64_t bytes = pass == AttentionPass::forward ? shared_bytes(kernel::flash_attn_fwd(0), spec)
                         : pass == AttentionPass::dq    ? shared_bytes(kernel::flash_attn_bwd_dq(0), spec)
                                                        : shared_bytes(kernel::flash_attn_bwd_dkdv(0), spec);
  return bytes <= caps.max_shared_bytes && static_cast<uint32_t>(s.local) <= caps.max_workgroup_invocations;
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

TilesShape tiles_shape(const Caps& caps, AttentionPass pass, int64_t dim, int64_t length) {
  const bool forward = pass == AttentionPass::forward;
  TilesShape shape = caps.is_software() ? kSoftwareTiles : kModestTiles;
  const char* asked = std::getenv(forward                     ? "AULE_ATTENTION_TILES"
                                  : pass == AttentionPass::dq ? "AULE_ATTENTION_TILES_DQ"
                                                              : "AULE_ATTENTION_TILES_DKDV");
  if (asked != nullptr) {
    TilesShape s;
    if (std::sscanf(asked, "%d,%d,%d,%d,%d,%d,%d,%d,%d,%d", &s.local, &s.lanes, &s.rows, &s.columns, &s.depth, &s.strip,
                    &s.stages, &s.unroll_scores, &s.unroll_result, &s.most) >= 9 &&
        sound(s) && fits(s, caps, pass, dim))
      return s;
  }
  if (length <= 64) {  // one block of rows, no longer than it must be
    shape.local = length <= 16 ? 4 * shape.lanes : length <= 32 ? 8 * shape.lanes : shape.local;
  } else if (caps.is_nvidia() && !caps.is_software()) {
    TilesShape wide = kBackwardTiles;
    if (forward) wide = dim <= 64 ? kForwardTiles64 : kForwardTiles;
    if (pass == AttentionPass::dkdv && dim > 64) wide = kDkDvTiles128;
    if (fits(wide, caps, pass, dim)) shape = wide;
  }
  while (!fits(shape, caps, pass, dim) && shape.most > 32) shape.most /= 2;
  return shape;
}

MatrixShape matrix_shape(int device, AttentionPass pass, bool banded, bool plain, int dim) {
  const size_t i = pass == AttentionPass::dq ? 2 : pass == AttentionPass::dkdv ? 3 : !plain ? 4 : banded ? 1 : 0;
  const bool nvidia = runtime::device_caps(static_cast<c10::DeviceIndex>(device)).is_nvidia();
  const MatrixShape shipped = find(nvidia ? kTables[i].nvidia : kTables[i].others, dim),
                    measured = find(measured_on(device)[i], dim);
  // The nearer row; a measured one where both are as near.
  MatrixShape shape = measured.dim != 0 && (shipped.dim == 0 || measured.dim <= shipped.dim) ? measured : shipped;
  if (const char* asked = std::getenv(kTables[i].variable); asked != nullptr && shape.dim != 0) {
    MatrixShape other{shape.dim};
    other.parts = shape.parts;
    if (std::sscanf(asked, "%d,%d,%d,%d,%d,%d,%d", &other.warps, &other.rows, &other.tile, &other.step, &other.stages,
                    &other.direct, &other.fences) >= 5 &&
        sound(other))
      shape = other;
  }
  return shape;
}

}  // namespace aule::ops

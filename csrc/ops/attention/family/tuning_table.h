// Sizes of the attention kernels by architecture, pass and head size: the shipped tables, or those that
// `python -m torch_aule.tune` measured on this device.
#pragma once
#include "ops/attention/family/coopmat.h"
#include "ops/attention/family/simt.h"

namespace aule::ops {

// An entry of the tables for cooperative matrices.
struct CoopMatEntry {
  int dim = 0;  // the larger padded head size, at most; 0: no entry
  int subgroups = 0, row_blocks = 0, tile = 0, blocks_in_flight = 0, stages = 0;
  // Stationary operands come straight from memory if rows are whole and aligned and this many others pass. The
  // kernel starts later, and the loop has more registers. 0: never.
  int from_global = 0;
  int motion_barriers = 0;  // forward: MOTION_BARRIERS of flash_attn_fwd_coopmat.comp
  int role_split = 0;       // backward: subgroups that share rows; 0: 2 above 128 columns, else 1
};
// For the padded head size `dim`. Overrides attention_shape(_dq, _dkdv) have the members from `subgroups` on.
CoopMatEntry coopmat_entry(const DeviceProfile& profile, const AttentionProblem& problem, AttentionPass pass, int dim,
                           const Overrides& overrides);

// Limits of the other families on an architecture.
struct FamilyLimits {
  int opaque_dim = 256;     // widest head of cooperative matrices of unknown layout
  int splitkv_local = 512;  // invocations of split-KV, if operands are loaded 16 bytes at a time
  // Narrowest head whose backward is faster with dS in a workspace. A pair of a query and a key saves two products of a
  // head's columns for 4 bytes of memory's traffic.
  int ds_workspace_dim = 192;
};
FamilyLimits family_limits(const DeviceProfile& profile);

// For `length` rows, of queries or in dK/dV of keys, and a result of `dim` columns; nothing if none fits. Overrides
// attention_tiles(_dq, _dkdv) have the members of a SimtShape.
std::optional<SimtShape> simt_shape(const DeviceProfile& profile, AttentionPass pass, int64_t dim, int64_t length,
                                    const Overrides& overrides);
int simt_columns(const SimtShape& shape, int64_t dim);

}  // namespace aule::ops

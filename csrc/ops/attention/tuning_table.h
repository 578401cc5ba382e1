// How the attention kernels are cut, by pass and head size. Those for matrix units: the shipped table, or what
// `python -m torch_aule.tune` measured on this device.
#pragma once
#include <span>

#include "ops/attention/plan.h"

namespace aule::ops {

struct MatrixShape {
  int dim = 0;  // the larger padded head size, at most; 0: no shape
  int warps = 0, rows = 0, tile = 0, step = 0, stages = 0;
  // Stationary operands come straight from memory where rows are whole and aligned and at least so many others pass:
  // it starts later but leaves the loop more registers. 0: never.
  int direct = 0;
  int fences = 0;  // forward: FENCES of flash_attn_fwd_matrix.comp
  int parts = 0;   // backward: subgroups that share rows, one with S and one with dP; 0: 2 above 128 columns, else 1
};

// The shape for padded head size `dim`; `plain`: scores without bias and soft cap. The overrides
// attention_shape(_dq, _dkdv)=warps,rows,tile,step,stages[,direct[,fences]] overrides the tables.
MatrixShape matrix_shape(const DeviceProfile& profile, AttentionPass pass, bool banded, bool plain, int dim);

// For `length` rows, of queries or in dK/dV of keys, and a result of `dim` columns.
// The overrides attention_tiles(_dq,
// _dkdv)=local,lanes,rows,columns,depth,strip,stages,unroll_scores,unroll_result[,most] replace it.
TilesShape tiles_shape(const DeviceProfile& caps, AttentionPass pass, int64_t dim, int64_t length);
int tiles_columns(const TilesShape& shape, int64_t dim);

}  // namespace aule::ops

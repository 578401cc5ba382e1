// How the attention kernels for matrix units are cut, by pass and head size: the shipped table, or what
// `python -m torch_aule.tune` measured on this device.
#pragma once
#include <span>

#include "ops/attention_plan.h"

namespace aule::ops {

struct MatrixShape {
  int dim = 0;  // the larger padded head size, at most; 0: no shape
  int warps = 0, rows = 0, tile = 0, step = 0, stages = 0;
  int direct = 0;  // 1: stationary operands straight from memory where rows are whole and aligned
  int parts = 0;   // backward: subgroups that share rows, each with its columns; 0: 2 above 128 columns, else 1
};

// The shape for padded head size `dim`. AULE_ATTENTION_SHAPE(_DQ, _DKDV)=warps,rows,tile,step,stages[,direct] overrides the
// tables.
MatrixShape matrix_shape(int device, AttentionPass pass, bool banded, int dim);

}  // namespace aule::ops

"""Settings of the code generator, patched as those of ``torch._inductor.config``; they are part of caches' keys."""

import sys

from torch.utils._config_module import install_config_module

# Vector accesses of 16 bytes where indices allow.
vectors: bool = True
# A row of a reduction is kept in registers, so that it is read once.
persistent_reductions: bool = True
# A product with its bias, activation and residual is one call of aule::linear_bias_act, where the device gains by it.
epilogues: bool = True
# A 16-bit product that leaves the graph as float32 alone is made as float32.
float32_products: bool = True
# softmax(where(mask, q @ k.mT, -inf)) @ v is one call of scaled_dot_product_attention.
masked_attention: bool = True
# torch.diag(a) @ b and linear(...).sum(-1) are one call of aule::diagonal_matmul and aule::fused_linear_rowsum.
reference_kernels: bool = True
# The numbers of torch_aule.compile.flex.shape.Tiles in their order, "128,8,8,8,8,1,2,2,8,64", for the kernels of
# FlexAttention; empty: chosen by the device.
flex_tiles_forward: str = ""
flex_tiles_dq: str = ""
flex_tiles_dkdv: str = ""
# Software devices: kernels of FlexAttention without barriers, a row for each lane.
flex_lane_rows: bool = True
# Kernels of FlexAttention on matrix units, where the device has them; on software devices for tests only.
flex_matrix_units: bool = True
flex_matrix_units_in_software: bool = False
# The numbers of torch_aule.compile.flex.matrices.Entry from `subgroups` on, "4,2,64,2,1"; empty: by the device.
flex_matrix_forward: str = ""
flex_matrix_dq: str = ""
flex_matrix_dkdv: str = ""

install_config_module(sys.modules[__name__])

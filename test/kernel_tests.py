"""Which test covers a kernel whose name no test mentions: the op's name differs from the kernel's."""

_BY_FILE = {
    "test_amp.py": "amp_unscale amp_update_scale",
    "test_copy_kernels.py": "copy_dense copy_strided copy_words fill_strided",
    "test_attention.py": "flash_attn_fwd_simd flash_attn_fwd_simt flash_attn_bwd_delta flash_attn_bwd_dkdv_simt "
    "flash_attn_bwd_dkdv_simd flash_attn_bwd_dq_simt flash_attn_bwd_dq_simd",
    "test_attention_splitkv.py": "flash_attn_splitkv_shared flash_attn_splitkv_combine flash_attn_splitkv",
    "test_attention_varlen.py": "flash_attn_sequences",
    "test_attention_coopmat.py": "flash_attn_fwd_coopmat flash_attn_bwd_dq_coopmat flash_attn_bwd_dkdv_coopmat "
    "flash_attn_bwd_dq_from_ds",
    "test_attention_coopmat_opaque.py": "flash_attn_fwd_coopmat_opaque",
    "test_factory.py": "sequence triangle_indices rearrange",
    "test_indexing.py": "index_combine index_combine_wide index_move index_move_wide unfold_backward",
    "test_loss.py": "nll_loss_sum nll_loss_backward",
    "test_coopmat_layout.py": "coopmat_layout",
    "test_matmul.py": "gemm_bf16x3_operand gemm_coopmat gemm_int8 gemm_scalar gemm_simd gemm_simd_unrolled gemm_simt "
    "gemm_simt_large gemm_splits gemv gemv_coopmat gemv_wide",
    "test_no_float64.py": "sequence_double_bits binary_double_bits ternary_double_bits unary_double_bits",
    "test_norm.py": "norm_fwd norm_bwd norm_bwd_params",
    "test_gpu_kernels.py": "column_sum norm_bwd_persistent norm_fwd_persistent norm_params_sum cross_entropy_backward",
    "test_optim.py": "foreach fused_adam fused_sgd",
    "test_pointwise.py": "unary_simd unary_special unary_strided binary_simd binary_strided ternary_simd "
    "ternary_strided",
    "test_random.py": "random_fill multinomial_check multinomial_pick dropout_backward",
    "test_attention_rotary.py": "rotary",
    "test_reduce_scan.py": "scan",
    "test_norm_softmax.py": "softmax_backward",
    "test_sort.py": "nonzero_write sort_block sort_emit sort_merge",
}
KERNEL_TESTS: dict[str, str] = {kernel: file for file, kernels in _BY_FILE.items() for kernel in kernels.split()}

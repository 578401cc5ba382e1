"""The one list of exceptions of test_opinfo.py, each with its cause.

An entry here is tested too: it must still be refused in the way that is stated, so that an operator that became native
is taken off the list. ``python test/opinfo_report.py`` prints what is missing, most wanted first.
"""

from __future__ import annotations

# Operators of the database that strict mode refuses: cause -> entries.
REFUSED: dict[str, list[str]] = {
    "linear algebra: factorizations and solvers are not there yet": [
        "cholesky", "cholesky_inverse", "cholesky_solve", "lu", "lu_solve", "matrix_exp", "triangular_solve",
        "logdet", "linalg.det", "linalg.cholesky", "linalg.cholesky_ex", "linalg.eig", "linalg.eigvals",
        "linalg.ldl_factor", "linalg.ldl_factor_ex", "linalg.ldl_solve", "linalg.lstsq", "linalg.lstsq.grad_oriented",
        "linalg.matrix_power", "linalg.slogdet", "linalg.lu_factor", "linalg.lu_factor_ex", "linalg.lu",
        "linalg.lu_solve", "linalg.inv", "linalg.inv_ex", "linalg.solve", "linalg.solve_ex",
        "linalg.solve_triangular", "linalg.tensorinv", "linalg.tensorsolve", "linalg.matrix_sqrth", "linalg.polar",
    ],
    "special functions without a kernel": [
        "special.zeta", "special.ndtri", "special.airy_ai", "special.bessel_j0", "special.bessel_j1",
        "special.bessel_y0", "special.bessel_y1", "special.chebyshev_polynomial_t", "special.chebyshev_polynomial_u",
        "special.chebyshev_polynomial_v", "special.chebyshev_polynomial_w", "special.hermite_polynomial_h",
        "special.hermite_polynomial_he", "special.laguerre_polynomial_l", "special.legendre_polynomial_p",
        "special.modified_bessel_i0", "special.modified_bessel_i1", "special.modified_bessel_k0",
        "special.modified_bessel_k1", "special.scaled_modified_bessel_k0", "special.scaled_modified_bessel_k1",
        "special.shifted_chebyshev_polynomial_t", "special.shifted_chebyshev_polynomial_u",
        "special.shifted_chebyshev_polynomial_v", "special.shifted_chebyshev_polynomial_w",
        "special.spherical_bessel_j0",
    ],
    "polygamma of an order above 1": [
        "polygamma.polygamma_n_0", "polygamma.polygamma_n_1", "polygamma.polygamma_n_2", "polygamma.polygamma_n_3",
        "polygamma.polygamma_n_4", "special.polygamma.special_polygamma_n_0",
    ],
    "sparse layouts": [
        "sparse.sampled_addmm", "sparse.mm.reduce", "to_sparse",
    ],
    "no kernel: segment_reduce": [
        "_segment_reduce.lengths", "_segment_reduce.offsets",
    ],
    "no kernel: _histogramdd_bin_edges": [
        "histogramdd",
    ],
    "no kernel: _scaled_mm": [
        "torch._scaled_mm",
    ],
    "no kernel: _scaled_mm_v2": [
        "torch._scaled_mm_v2",
    ],
    "no kernel: fractional_max_pool2d.output": [
        "nn.functional.fractional_max_pool2d",
    ],
    "no kernel: fractional_max_pool3d.output": [
        "nn.functional.fractional_max_pool3d",
    ],
    "no kernel: frexp.Tensor_out": [
        "frexp",
    ],
    "no kernel: hash_tensor.out": [
        "hash_tensor",
    ],
    "no kernel: histogram.bin_ct": [
        "histogram",
    ],
    "no kernel: igamma.out": [
        "igamma",
    ],
    "no kernel: igammac.out": [
        "igammac",
    ],
    "no kernel: lu_unpack.out": [
        "lu_unpack",
    ],
    "no kernel: unique_dim": [
        "unique",
    ],
    "unique_consecutive: declined": [
        "unique_consecutive",
    ],
}

# Entries whose kernels decline some of the database's arguments with a clear error: cause -> entries.
UNSUPPORTED: dict[str, list[str]] = {}

# Entries that cannot be run through the generic comparison: cause -> entries.
NOT_COMPARABLE: dict[str, list[str]] = {
    "the sample draws its own dropout, which no two devices share": ["nn.functional.multi_head_attention_forward"],
    "PyTorch wants the sections on the CPU, and the harness moves every tensor": ["tensor_split"],
    "an operator of the CPU, by its name, whose masks no other device takes": [
        "torch.ops.aten._scaled_dot_product_flash_attention_for_cpu",
    ],
}

# Entries whose gradient needs an operator that is refused: cause -> entries.
BACKWARD_REFUSED: dict[str, list[str]] = {}


def _by_entry(table: dict[str, list[str]]) -> dict[str, str]:
    return {entry: cause for cause, entries in table.items() for entry in entries}


refused = _by_entry(REFUSED)
unsupported = _by_entry(UNSUPPORTED)
not_comparable = _by_entry(NOT_COMPARABLE)
backward_refused = _by_entry(BACKWARD_REFUSED)

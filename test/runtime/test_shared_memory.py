"""Shared memory as a function of specialization constants, read from the SPIR-V: the number beside one made by hand."""

import pytest
import torch

import torch_aule

NATIVE = torch_aule._C


def gemm_fragments(bm, bn, bk):
    return (bm + bn) * bk * 2  # 16-bit tiles of both operands


def gemm_opaque(bm, bn, wm, wn, bk):
    # Tiles along k, rows padded by 16 bytes, and a patch of 16 x 32 floats for each subgroup.
    return (bm + bn) * (bk + 8) * 2 + bm // wm * (bn // wn) * 16 * 32 * 4


def attention_forward(dim, tile, stages, subgroups, rows, listed=4):
    # Rows of keys and values are padded by 16 bytes; queries pass a staging of at most 128 columns, 16 rows of each
    # subgroup. An unused transpose scratch, a flag and an unused list of blocks take 16 bytes each.
    tiles = stages * tile * 2 * (2 * dim + 16)
    staging = subgroups * 16 * (min(dim, 128) + 8) * 2
    return max(tiles, staging) + 32 + 4 * listed


GEMM = [16, 16, 128, 128, 256, 64, 64, 64]
CASES = [
    ("sort_block<GROUP=1>", [0, 0, 256, 32], 256 * 8),
    ("transpose", [0], 32 * 33 * 8 + 32),  # and places for halves of elements and for pairs, of which there are none
    ("nll_loss_sum<C=float>", [0, 0, 64], 2 * 64 * 4),
    ("reduce<C=float,STATE=value,GROUP=1>", [0, 0, 0, 0, 0, 0, 128], 128 * 4),
    ("reduce<C=float,STATE=arg,GROUP=1>", [0, 0, 0, 0, 0, 0, 128], 128 * 16),  # an int64 and a float, padded
    ("reduce<C=double,STATE=moments,GROUP=1>", [0, 0, 0, 0, 0, 0, 64], 64 * 24),
    ("gemm_coopmat<T=float16_t,FRAGMENTS=1,ROW_CLASSES=0>", [*GEMM, 0, 0], gemm_fragments(128, 256, 64)),
    ("gemm_coopmat<T=bfloat16_t,FRAGMENTS=0,ROW_CLASSES=0>", [*GEMM, 0, 0], gemm_opaque(128, 256, 64, 64, 64)),
]
ATTENTION = [(64, 64, 2, 4, 2), (128, 32, 1, 8, 2), (256, 16, 2, 8, 1), (16, 16, 1, 8, 1)]


@pytest.mark.parametrize("name, constants, expected", CASES, ids=[case[0] for case in CASES])
def test_kernels(name, constants, expected):
    names = [row[0] for row in NATIVE.registered_kernels()]
    close = [other for other in names if other.split("<")[0] == name.split("<")[0]]
    assert name in names, f"there are {close}"
    assert NATIVE.shared_bytes(name, constants) == expected


@pytest.mark.parametrize("dim, tile, stages, subgroups, rows", ATTENTION)
def test_attention_on_matrix_units(dim, tile, stages, subgroups, rows):
    # dtype, bias, dropout, soft cap, local, state, threshold, ragged, page, ALiBi, rows and keys of a mask's block;
    # m, n, subgroup and nine words of the layout
    common = [1, 0xFFFFFFFF, 0, 0, 32 * subgroups, 0, 0, 0, 0, 0, 0, 0, 16, 16, 32, 4, 1, 2, 2, 0, 0, 0, 0, 0]
    plan = [dim, dim, tile, rows, 1, stages, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
    actual = NATIVE.shared_bytes("flash_attn_fwd_coopmat<T=float16_t>", [*common, *plan])
    assert actual == attention_forward(dim, tile, stages, subgroups, rows)
    listed = NATIVE.shared_bytes("flash_attn_fwd_coopmat<T=float16_t>", [*common, *plan, 0, 1, *[0] * 8, 512])
    assert listed == attention_forward(dim, tile, stages, subgroups, rows, 512)


def test_more_than_the_device_has_is_refused():
    limit = NATIVE.device_properties(0)["max_shared_bytes"]
    block = 1 << (limit // 8).bit_length()
    with pytest.raises(RuntimeError, match=f"{block * 8} bytes of shared memory, .* has {limit}"):
        NATIVE.compile_kernel(0, "sort_block<GROUP=1>", [0, 0, block, 32])
    assert torch.arange(3, device="aule").sum().item() == 3


def test_a_workgroup_that_the_device_has_not_is_refused():
    """By its size along each axis, which some drivers do not ask about."""
    most = NATIVE.device_properties(0)["max_workgroup_invocations"]
    with pytest.raises(RuntimeError, match=f"workgroup of {2 * most} x 1 x 1 invocations, .* has {most}"):
        NATIVE.compile_kernel(0, "nll_loss_sum<C=float>", [0, 0, 2 * most])

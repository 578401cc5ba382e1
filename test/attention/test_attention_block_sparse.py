"""Attention over the blocks that a mask keeps: every family of kernels beside dense attention in float64."""

import functools
import time

import pytest
import torch

from attention_reference import check, inputs, reference
from helpers import FLOATS
from torch_aule import functional as aule

pytestmark = pytest.mark.validated  # conftest.py: `attention_family` is marked pytest.mark.current_lavapipe


def dense(mask, block_q, block_k, q_len, k_len):
    return mask.cpu().repeat_interleave(block_q, -2).repeat_interleave(block_k, -1)[..., :q_len, :k_len]


def compare(q, k, v, grad, mask, block_q, block_k, causal=False, scale=None):
    leaves = [t.detach().requires_grad_() for t in (q, k, v)]
    out = aule.block_sparse_attention(*leaves, mask, (block_q, block_k), causal, scale)
    out.backward(grad)
    elements = dense(mask, block_q, block_k, q.size(-2), k.size(-2))
    expected = reference(q, k, v, grad, elements, causal=causal, scale=scale)
    check([out, *(t.grad for t in leaves)], expected[:4], q.dtype)


def random_mask(*shape, share=0.4):
    return (torch.rand(shape) < share).to("aule")


def test_on_matrices(matrix_family):
    """The forward alone, which a software device compiles in 15 seconds; gradients take three times as long."""
    q, k, v, grad = inputs(1, 1, 1, 32, 48, 16, 16, torch.float16)
    mask = torch.tensor([[True, False, True], [False, True, False]], device="aule")
    out = aule.block_sparse_attention(q, k, v, mask, 16)
    check([out], reference(q, k, v, grad, dense(mask, 16, 16, 32, 48))[:1], q.dtype)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_whole_tiles_are_skipped(attention_family, dtype, causal):
    """Blocks of 64, into which the tiles of a software device fit; each head has its own mask."""
    q, k, v, grad = inputs(1, 2, 1, 150, 200, 16, 16, dtype)
    compare(q, k, v, grad, random_mask(1, 2, 3, 4), 64, 64, causal)


def test_many_blocks_of_keys(attention_family):
    """More than the bits of a word, words without a bit, rows of blocks without a block, or with the last one only."""
    q, k, v, grad = inputs(1, 1, 1, 128, 16 * 150 - 3, 16, 16, torch.float16)
    mask = torch.zeros(4, 150, dtype=torch.bool)
    mask[0, torch.tensor([3, 4, 31, 32, 100, 149])] = True
    mask[2, 149] = mask[3, 0] = mask[3, 95] = True
    compare(q, k, v, grad, mask.to("aule"), 32, 16)
    whole = [t[..., : 16 * 149, :] for t in (k, v)]  # no mask of single keys
    compare(q, *whole, grad, mask[:, :149].contiguous().to("aule"), 32, 16)


@pytest.mark.parametrize("blocks", [2048, 2049])
def test_more_blocks_than_a_list_has(attention_family, blocks):
    q, k, v, grad = inputs(1, 1, 1, 32, 16 * blocks, 16, 16, torch.float16)
    mask = random_mask(1, blocks, share=0.02)
    mask[0, -1] = True
    out = aule.block_sparse_attention(q, k, v, mask, (32, 16))
    expected = reference(q, k, v, grad, dense(mask, 32, 16, 32, 16 * blocks))
    check([out], expected[:1], q.dtype)


@pytest.mark.parametrize("blocks", [(16, 48), (5, 7), (128, 8)])
def test_blocks_that_tiles_do_not_fit(attention_family, blocks):
    q, k, v, grad = inputs(2, 2, 2, 45, 77, 24, 10, torch.float16)
    mask = random_mask(2, 1, -(-45 // blocks[0]), -(-77 // blocks[1]))
    compare(q, k, v, grad, mask, *blocks, causal=False, scale=0.3)
    compare(q, k, v, grad, mask, *blocks, causal=True)


def test_window_and_global_blocks(attention_family):
    """The pattern of sparse transformers: neighbours, and first blocks that all see."""
    q, k, v, grad = inputs(1, 2, 2, 192, 192, 16, 16)
    mask = torch.ones(6, 6, dtype=torch.bool).triu(-1).tril(1)
    mask[:, 0] = mask[0] = True
    compare(q, k, v, grad, mask.to("aule"), 32, 32)


def test_nothing_or_all_kept(attention_family):
    q, k, v, grad = inputs(1, 2, 1, 40, 70, 8, 8)
    compare(q, k, v, grad, torch.ones(2, 3, dtype=torch.bool, device="aule"), 32, 32, causal=True)
    compare(q, k, v, grad, torch.zeros(2, 3, dtype=torch.bool, device="aule"), 32, 32)
    out, lse = aule.block_sparse_attention(
        q, k, v, torch.zeros(2, 3, dtype=torch.bool, device="aule"), 32, return_lse=True
    )
    assert not out.any() and (lse == -torch.inf).all()


def test_wide_heads_and_groups(attention_family):
    q, k, v, grad = inputs(1, 4, 1, 33, 65, 144, 120, torch.float16)
    compare(q, k, v, grad, random_mask(1, 4, 3, 3, share=0.6), 16, 32)


def test_views_and_no_batch():
    q, k, v, grad = inputs(1, 2, 2, 40, 40, 16, 16)
    q, k = (torch.cat((t, t), -1).mT.contiguous().mT[..., 3:19] for t in (q, k))
    mask = random_mask(6, 2, 5)[::2].transpose(0, 1)  # [2, 3, 5] of a larger one
    compare(q[0], k[0], v[0], grad[0], mask, 16, 8)
    empty = torch.zeros(0, 2, 5, 8, device="aule")
    assert aule.block_sparse_attention(empty, empty, empty, mask[:1, :1, :1], 8).shape == (0, 2, 5, 8)
    none = aule.block_sparse_attention(q, k[:, :, :0], v[:, :, :0], mask[0, :, :0], 16)
    assert not none.any()


def test_gradient_of_the_log_sum_exp():
    q, k, v, _ = inputs(1, 2, 2, 20, 24, 8, 8)
    mask = torch.tensor([[True, False, True], [True, True, False], [True, False, True]], device="aule")
    leaves = [t.detach().requires_grad_() for t in (q, k, v)]
    out, lse = aule.block_sparse_attention(*leaves, mask, 8, return_lse=True)
    weights = torch.randn_like(lse)
    ((lse * weights).sum() + out.square().sum()).backward()
    wide = [t.detach().cpu().double().requires_grad_() for t in (q, k, v)]
    scores = (wide[0] @ wide[1].mT * 8**-0.5).masked_fill(~dense(mask, 8, 8, 20, 24), -torch.inf)
    expected = scores.softmax(-1) @ wide[2]
    ((scores.logsumexp(-1) * weights.cpu().double()).sum() + expected.square().sum()).backward()
    torch.testing.assert_close(lse.detach().cpu().double(), scores.logsumexp(-1).detach(), rtol=1e-4, atol=1e-5)
    for a, e in zip(leaves, wide):
        torch.testing.assert_close(a.grad.cpu().double(), e.grad, rtol=1e-4, atol=1e-4)


def test_block_masks_of_pytorch():
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    q, k, v, _ = inputs(1, 2, 2, 64, 96, 8, 8)
    kept = random_mask(1, 1, 4, 3, share=0.5)

    def by_block(b, h, i, j):
        return kept[0, 0, i // 16, j // 32]

    mask = flex.create_block_mask(by_block, None, None, 64, 96, device="aule", BLOCK_SIZE=(16, 32))
    out = aule.block_sparse_attention(q, k, v, mask)
    assert torch.equal(out, aule.block_sparse_attention(q, k, v, kept, (16, 32)))
    causal = flex.create_block_mask(lambda b, h, i, j: i >= j, None, None, 64, 96, device="aule", BLOCK_SIZE=(16, 32))
    with pytest.raises(NotImplementedError, match="some blocks are partial"):
        aule.block_sparse_attention(q, k, v, causal)
    with pytest.raises(ValueError, match="no block_size beside a BlockMask"):
        aule.block_sparse_attention(q, k, v, mask, 16)


def test_traced():
    q, k, v, _ = (t.requires_grad_() for t in inputs(1, 2, 2, 9, 11, 8, 8))
    mask = torch.tensor([[True, False], [True, True], [False, True]], device="aule")
    tests = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    torch.library.opcheck(torch.ops.aule.block_sparse_attn.default, (q, k, v, mask, 4, 8, True), test_utils=tests)
    compiled = torch.compile(aule.block_sparse_attention, fullgraph=True, backend="aot_eager")
    gradients = []
    for function in (aule.block_sparse_attention, compiled):
        for t in (q, k, v):
            t.grad = None
        function(q, k, v, mask, (4, 8)).square().sum().backward()
        gradients.append([t.grad.cpu() for t in (q, k, v)])
    torch.testing.assert_close(*gradients)


def test_work_is_that_of_the_blocks_kept():
    """An eighth of the blocks takes less than half of the time of all; about an eighth, but for what else runs."""
    q, k, v, _ = inputs(1, 2, 2, 1024, 1024, 32, 32)
    everything = torch.ones(16, 16, dtype=torch.bool, device="aule")
    few = everything & (torch.arange(16, device="aule")[:, None] // 2 == torch.arange(16, device="aule") // 2)

    def seconds(mask):
        best = float("inf")
        for _ in range(4):
            torch.aule.synchronize()
            begin = time.perf_counter()
            aule.block_sparse_attention(q, k, v, mask, 64)
            torch.aule.synchronize()
            best = min(best, time.perf_counter() - begin)
        return best

    assert seconds(few) < 0.5 * seconds(everything)


def test_errors():
    q = torch.zeros(2, 3, 20, 8, device="aule")
    mask = torch.ones(3, 3, dtype=torch.bool, device="aule")
    call = functools.partial(aule.block_sparse_attention, q, q, q)
    cases = [
        (ValueError, "expected block_size beside", lambda: call(mask)),
        (TypeError, "a tensor or a BlockMask, but got list", lambda: call([[True]], 8)),
        (ValueError, "one or two integers", lambda: call(mask, (8, 8, 8))),
        (RuntimeError, "block_sparse_attn: expected block_mask of dtype bool", lambda: call(mask.int(), 8)),
        (RuntimeError, r"block_mask of shape \[.., 5, 5\]", lambda: call(mask, 4)),
        (RuntimeError, "block_mask of shape", lambda: call(mask.expand(2, 2, 3, 3), 8)),
        (RuntimeError, "block_mask on aule", lambda: call(mask.cpu(), 8)),
        (RuntimeError, "block_q and block_k of at least 1", lambda: call(mask, (8, 0))),
        (RuntimeError, "head size", lambda: aule.block_sparse_attention(q, q[..., :4], q, mask, 8)),
    ]
    for kind, text, wrong in cases:
        with pytest.raises(kind, match=text):
            wrong()

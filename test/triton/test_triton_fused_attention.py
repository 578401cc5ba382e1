"""Attention in kernels of Triton, forward and backward."""

import random

import pytest
import torch

triton = pytest.importorskip("triton", reason="triton is not installed")
import triton.language as tl  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*TRITON_DEFAULT_FP_FUSION", "ignore:.*can_reorder")
U32, U16, TINY16 = 2.0**-24, 2.0**-11, 2.0**-25  # half a unit in the last place; half of float16's smallest step


@triton.jit
def attend(
    q, k, v, o, lse, scale, heads, length,
    CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """Exponents are in base 2. Blocks of keys that no mask touches, then the others."""
    block, head = tl.program_id(0), tl.program_id(1)
    base = head.to(tl.int64) * length * D
    m, d, n = block * BM + tl.arange(0, BM), tl.arange(0, D), tl.arange(0, BN)
    x = tl.load(q + base + m[:, None] * D + d[None, :], mask=m[:, None] < length, other=0.0)
    top = tl.zeros([BM], dtype=tl.float32) - float("inf")
    total = tl.zeros([BM], dtype=tl.float32) + 1.0
    total = total * 0
    sums = tl.zeros([BM, D], dtype=tl.float32)
    whole = (tl.minimum(block * BM, length) if CAUSAL else length) // BN * BN
    end = tl.minimum((block + 1) * BM, length) if CAUSAL else length
    for stage in tl.static_range(2):
        low = 0 if stage == 0 else whole
        high = whole if stage == 0 else end
        for begin in tl.range(low, high, BN, num_stages=2):
            begin = tl.multiple_of(begin, BN)
            at = begin + n
            y = tl.load(k + base + at[None, :] * D + d[:, None], mask=at[None, :] < length, other=0.0)
            s = tl.dot(x, y) * (scale * 1.4426950408889634)
            if stage == 1:
                seen = at[None, :] < length
                if CAUSAL:
                    seen = seen & (m[:, None] >= at[None, :])
                s = tl.where(seen, s, -1.0e6)
            higher = tl.maximum(top, tl.max(s, 1))
            p = tl.math.exp2(s - higher[:, None])
            old = tl.math.exp2(top - higher)
            total = total * old + tl.sum(p, 1)
            z = tl.load(v + base + at[:, None] * D + d[None, :], mask=at[:, None] < length, other=0.0)
            sums = tl.dot(p.to(tl.float16), z, sums * old[:, None])
            top = higher
    tl.store(lse + head * length + m, top + tl.math.log2(total), mask=m < length)
    tl.store(o + base + m[:, None] * D + d[None, :], (sums / total[:, None]).to(tl.float16), mask=m[:, None] < length)


@triton.jit
def attend_delta(o, do, delta, length, BM: tl.constexpr, D: tl.constexpr):
    m, d, head = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, D), tl.program_id(1)
    at = head * length * D + m[:, None] * D + d[None, :]
    a = tl.load(o + at, mask=m[:, None] < length, other=0.0).to(tl.float32)
    b = tl.load(do + at, mask=m[:, None] < length, other=0.0).to(tl.float32)
    tl.store(delta + head * length + m, tl.sum(a * b, axis=1), mask=m < length)


@triton.jit
def attend_backward(
    q, k, v, do, dq, dk, dv, lse, delta, scale, length,
    CAUSAL: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr,
):  # fmt: skip
    """A program has one block: of keys, for their gradients, then of queries, for theirs."""
    own, head = tl.program_id(0), tl.program_id(1)
    base = head.to(tl.int64) * length * D
    mine, d, r = own * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D), tl.arange(0, BLOCK)
    at = base + mine[:, None] * D + d[None, :]
    inside = mine[:, None] < length
    to_base_2 = scale * 1.4426950408889634

    keys, values = tl.load(k + at, mask=inside, other=0.0), tl.load(v + at, mask=inside, other=0.0)
    dkeys, dvalues = tl.zeros([BLOCK, D], dtype=tl.float32), tl.zeros([BLOCK, D], dtype=tl.float32)
    for begin in range(own * BLOCK if CAUSAL else 0, length, BLOCK):
        m = begin + r
        turned = base + m[None, :] * D + d[:, None]
        queries_t = tl.load(q + turned, mask=m[None, :] < length, other=0.0)
        high = tl.load(lse + head * length + m, mask=m < length, other=0.0)
        p_t = tl.math.exp2(tl.dot(keys, queries_t) * to_base_2 - high[None, :])
        seen = m[None, :] < length
        if CAUSAL:
            seen = seen & (m[None, :] >= mine[:, None])
        p_t = tl.where(seen, p_t, 0.0)
        given = tl.load(do + base + m[:, None] * D + d[None, :], mask=m[:, None] < length, other=0.0)
        dvalues += tl.dot(p_t.to(tl.float16), given)
        row = tl.load(delta + head * length + m, mask=m < length, other=0.0)
        ds_t = p_t * (tl.dot(values, tl.trans(given)) - row[None, :])
        dkeys += tl.dot(ds_t.to(tl.float16), tl.trans(queries_t))
    tl.store(dv + at, dvalues.to(tl.float16), mask=inside)
    tl.store(dk + at, (dkeys * scale).to(tl.float16), mask=inside)

    queries, given = tl.load(q + at, mask=inside, other=0.0), tl.load(do + at, mask=inside, other=0.0)
    high = tl.load(lse + head * length + mine, mask=mine < length, other=0.0)[:, None]
    row = tl.load(delta + head * length + mine, mask=mine < length, other=0.0)[:, None]
    dqueries = tl.zeros([BLOCK, D], dtype=tl.float32)
    for begin in range(0, tl.minimum((own + 1) * BLOCK, length) if CAUSAL else length, BLOCK):
        n = begin + r
        turned = base + n[None, :] * D + d[:, None]
        keys_t = tl.load(k + turned, mask=n[None, :] < length, other=0.0)
        values_t = tl.load(v + turned, mask=n[None, :] < length, other=0.0)
        p = tl.math.exp2(tl.dot(queries, keys_t) * to_base_2 - high)
        seen = n[None, :] < length
        if CAUSAL:
            seen = seen & (mine[:, None] >= n[None, :])
        ds = tl.where(seen, p, 0.0) * (tl.dot(given, values_t) - row)
        dqueries += tl.dot(ds.to(tl.float16), tl.trans(keys_t))
    tl.store(dq + at, (dqueries * scale).to(tl.float16), mask=inside)


class TritonAttention(torch.autograd.Function):
    """softmax(scale Q K^T) V of [heads, length, size] in float16."""

    @staticmethod
    def forward(ctx, q, k, v, causal, scale):
        heads, length, size = q.shape
        o, lse = torch.empty_like(q), torch.empty(heads, length, device=q.device)
        attend[lambda meta: (triton.cdiv(length, meta["BM"]), heads)](
            q, k, v, o, lse, scale, heads, length, CAUSAL=causal, BM=32, BN=16, D=size, num_warps=4, num_stages=2
        )
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.causal, ctx.scale = causal, scale
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, o, lse = ctx.saved_tensors
        heads, length, size = q.shape
        dq, dk, dv = (torch.empty_like(q) for _ in range(3))
        delta, blocks = torch.empty_like(lse), triton.cdiv(length, 16)
        attend_delta[(blocks, heads)](o, do, delta, length, BM=16, D=size)
        attend_backward[(blocks, heads)](
            q, k, v, do, dq, dk, dv, lse, delta, ctx.scale, length, CAUSAL=ctx.causal, BLOCK=16, D=size, num_warps=2
        )
        return dq, dk, dv, None, None


@pytest.mark.parametrize("causal", [False, True])
def test_attention(device, causal):
    heads, length, size = 3, random.randrange(41, 90, 2), 32
    scale = size**-0.5
    q, k, v, do = (torch.randn(heads, length, size).half() for _ in range(4))
    own = [t.to(device).requires_grad_() for t in (q, k, v)]
    out = TritonAttention.apply(*own, causal, scale)
    out.backward(do.to(device))

    q, k, v, do = (t.double() for t in (q, k, v, do))
    scores = q @ k.transpose(1, 2) * scale
    if causal:
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -float("inf"))
    p = scores.softmax(-1)
    o = p @ v
    dp = do @ v.transpose(1, 2)
    delta = (o * do).sum(-1, keepdim=True)
    ds = p * (dp - delta)
    # A probability is rounded to float16; its score is off by the roundings of a product of `size` terms.
    most = float((q.abs() @ k.abs().transpose(1, 2)).max()) * scale
    relative = U16 + U32 * (most * (size + 4) + 2 * length + 20)
    step = 2.0**-25 * 2  # probabilities below float16's smallest normal one
    bound_o = relative * 2 * (p @ v.abs()) + step * v.abs().sum(1, keepdim=True) + U16 * o.abs() + TINY16
    assert ((out.detach().cpu().double() - o).abs() <= bound_o).all()

    seen = (p > 0).double()
    size_dp = do.abs() @ v.abs().transpose(1, 2)
    error_delta = (bound_o * do.abs()).sum(-1, keepdim=True) + U32 * size * (o * do).abs().sum(-1, keepdim=True)
    error_p = 2 * relative * p + step * seen
    error_ds = error_p * (dp - delta).abs() + (p + error_p) * (U32 * size * size_dp + error_delta)
    error_ds = error_ds + U16 * ds.abs() + step * seen
    for got, exact, bound in (
        (own[0], ds @ k * scale, (error_ds @ k.abs()) * scale),
        (own[1], ds.transpose(1, 2) @ q * scale, (error_ds.transpose(1, 2) @ q.abs()) * scale),
        (own[2], p.transpose(1, 2) @ do, error_p.transpose(1, 2) @ do.abs()),
    ):
        bound = bound * (1 + U32 * length) + U16 * exact.abs() + TINY16
        assert ((got.grad.cpu().double() - exact).abs() <= 1.01 * bound + 1e-6).all()


@triton.jit
def descriptor_of(memory, rows, block: tl.constexpr, D: tl.constexpr):
    if isinstance(memory, tl.tensor_descriptor):
        return memory
    else:
        return tl.make_tensor_descriptor(memory, shape=[rows, D], strides=[D, 1], block_shape=[block, D])


def shapes_of_blocks(given):
    """Before a launch with a configuration: descriptors from the host get its sizes."""
    if isinstance(given["q"], TensorDescriptor):
        for name, rows in (("q", "BM"), ("k", "BN"), ("v", "BN"), ("o", "BM")):
            given[name].block_shape = [given[rows], given["D"]]


def whole_blocks(configs, named, **kwargs):
    """Configurations whose blocks divide the length."""
    return [config for config in configs if named["length"] % config.kwargs["BM"] == 0]


@triton.autotune(
    configs=[
        triton.Config({"BM": 32, "BN": 16}, num_stages=2, num_warps=4, pre_hook=shapes_of_blocks),
        triton.Config({"BM": 16, "BN": 16}, num_stages=3, num_warps=2, pre_hook=shapes_of_blocks),
    ],
    key=["length"],
    prune_configs_by={"early_config_prune": whole_blocks},
)
@triton.jit
def attend_by_descriptors(
    q, k, v, o, scale, heads, length, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr, APART: tl.constexpr
):
    rows = heads * length
    queries, out = descriptor_of(q, rows, BM, D), descriptor_of(o, rows, BM, D)
    keys, values = descriptor_of(k, rows, BN, D), descriptor_of(v, rows, BN, D)
    first = tl.program_id(1) * length
    at = first + tl.program_id(0) * BM
    x = queries.load([at, 0])
    top, total = tl.full([BM], -float("inf"), tl.float32), tl.zeros([BM], dtype=tl.float32)
    sums = tl.zeros([BM, D], dtype=tl.float32)
    for begin in tl.range(0, length, BN, warp_specialize=APART):
        s = tl.dot(x, keys.load([first + begin, 0]).T) * (scale * 1.4426950408889634)
        higher = tl.maximum(top, tl.max(s, 1))
        p, old = tl.math.exp2(s - higher[:, None]), tl.math.exp2(top - higher)
        total = total * old + tl.sum(p, 1)
        z = values.load([first + begin, 0])
        sums = tl.dot(p.to(z.dtype), z, sums * old[:, None])
        top = higher
    out.store([at, 0], (sums / total[:, None]).to(tl.float16))


@pytest.mark.parametrize("form", ["device", "host"])
def test_attention_by_descriptors(device, form):
    heads, length, size = 2, 16 * random.randrange(3, 6), 32
    scale = size**-0.5
    q, k, v = (torch.randn(heads, length, size).half() for _ in range(3))
    own, out = [t.to(device) for t in (q, k, v)], torch.zeros(heads, length, size, dtype=torch.float16, device=device)
    given = [*own, out]
    if form == "host":
        given = [TensorDescriptor(t, [heads * length, size], [size, 1], [1, 1]) for t in given]
    attend_by_descriptors[lambda meta: (length // meta["BM"], heads)](
        *given, scale, heads, length, D=size, APART=form == "device"
    )
    q, k, v = (t.double() for t in (q, k, v))
    p = (q @ k.transpose(1, 2) * scale).softmax(-1)
    o = p @ v
    most = float((q.abs() @ k.abs().transpose(1, 2)).max()) * scale
    relative = U16 + U32 * (most * (size + 4) + 2 * length + 20)
    bound = relative * 2 * (p @ v.abs()) + 2.0**-24 * v.abs().sum(1, keepdim=True) + U16 * o.abs() + TINY16
    assert ((out.cpu().double() - o).abs() <= bound).all()

"""What the tutorials of Triton do, in kernels of our own: softmax, dropout, norms, products, functions."""

import itertools
import math
import random

import pytest
import torch

triton = pytest.importorskip("triton", reason="triton is not installed")
import triton.language as tl  # noqa: E402
from triton.language.extra import libdevice  # noqa: E402
from triton.runtime import driver  # noqa: E402
from triton.tools.tensor_descriptor import TensorDescriptor  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*TRITON_DEFAULT_FP_FUSION", "ignore:.*can_reorder")
U32, U16, TINY16 = 2.0**-24, 2.0**-11, 2.0**-25  # half a unit in the last place; half of float16's smallest step


def odd(low, high):
    return random.randrange(low | 1, high, 2)


# Vectors.


@triton.jit
def add_vectors(x, y, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    tl.store(o + at, tl.load(x + at, mask=inside) + tl.load(y + at, mask=inside), mask=inside)


def test_vectors_are_added(device):
    n = odd(1000, 5000)
    x, y = torch.randn(n), torch.randn(n)
    out = torch.full((n + 8,), 7.0, device=device)
    add_vectors[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x.to(device), y.to(device), out, n, BLOCK=256)
    assert torch.equal(out[:n].cpu(), x + y)
    assert (out[n:] == 7).all()  # nothing behind the last element


# Softmax by programs that stay and take one row after another.


@triton.jit
def softmax_of_rows(o, x, o_stride, x_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        v = tl.load(x + row * x_stride + at, mask=at < columns, other=-float("inf"))
        e = tl.exp(v - tl.max(v, axis=0))
        tl.store(o + row * o_stride + at, e / tl.sum(e, axis=0), mask=at < columns)


def test_softmax_of_persistent_programs(device):
    rows, columns = odd(30, 90), odd(200, 500)
    block = triton.next_power_of_2(columns)
    x = torch.randn(rows, columns) * 4
    own, out = x.to(device), torch.empty(rows, columns, device=device)
    properties = driver.active.utils.get_device_properties(out.device.index)
    kernel = softmax_of_rows.warmup(
        out, own, columns, columns, rows, columns, BLOCK=block, STAGES=2, num_warps=8, grid=(1,)
    )
    kernel._init_handles()
    assert 0 <= kernel.metadata.shared <= properties["max_shared_mem"]
    assert kernel.n_regs >= 0 and kernel.n_spills >= 0
    per_register_file = properties["max_num_regs"] // (max(kernel.n_regs, 1) * properties["warpSize"] * 8)
    assert per_register_file >= 1
    programs = min(properties["multiprocessor_count"] * 3, rows)
    kernel[(programs, 1, 1)](out, own, columns, columns, rows, columns, block, 2)
    expected = x.double().softmax(1)
    # exp of a difference d is off by 3 + |d| units, the sum by as much and its additions, the quotient by 3.
    span = float((x.max() - x.min()).item())
    bound = expected * 2 * U32 * (2 * (3 + span) + 16 + 3) + 2.0**-126
    assert ((out.cpu().double() - expected).abs() <= bound).all()


# Dropout whose mask is a seed.


@triton.jit
def seeded_dropout(x, o, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = tl.rand(seed, at) > p
    v = tl.load(x + at, mask=at < n)
    tl.store(o + at, tl.where(keep, v / (1 - p), 0.0), mask=at < n)


def test_dropout_with_a_seed(device):
    n, p = odd(4000, 9000), 0.5
    x = torch.randn(n) + 8  # none is 0
    outs = []
    for seed, block in ((1234, 256), (1234, 512), (99, 256)):
        out = torch.empty(n, device=device)
        seeded_dropout[(triton.cdiv(n, block),)](x.to(device), out, n, p, seed, BLOCK=block)
        outs.append(out.cpu())
    assert torch.equal(outs[0], outs[1])  # the same elements, whatever the blocks are
    assert not torch.equal(outs[0], outs[2])
    kept = outs[0] != 0
    assert torch.equal(outs[0][kept], (x / (1 - p))[kept])
    assert abs(kept.double().mean().item() - (1 - p)) < 6 * math.sqrt(p * (1 - p) / n)


# Layer norm: gradients of weight and bias in two steps, the first under locks.


@triton.jit
def norm_forward(x, y, w, b, mean, rstd, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for begin in range(0, n, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        total += tl.load(x + row * stride + at, mask=at < n, other=0.0).to(tl.float32)
    m = tl.sum(total, axis=0) / n
    squares = tl.zeros([BLOCK], dtype=tl.float32)
    for begin in range(0, n, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        v = tl.load(x + row * stride + at, mask=at < n, other=0.0).to(tl.float32)
        d = tl.where(at < n, v - m, 0.0)
        squares += d * d
    r = 1 / tl.sqrt(tl.sum(squares, axis=0) / n + eps)
    tl.store(mean + row, m)
    tl.store(rstd + row, r)
    for begin in range(0, n, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        v = tl.load(x + row * stride + at, mask=at < n, other=0.0).to(tl.float32)
        scale, shift = tl.load(w + at, mask=at < n), tl.load(b + at, mask=at < n)
        tl.store(y + row * stride + at, (v - m) * r * scale + shift, mask=at < n)


@triton.jit
def norm_backward(
    dx, dy, dw, db, x, w, mean, rstd, lock, stride, n, GROUPS: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < n
    v = tl.load(x + row * stride + at, mask=inside, other=0).to(tl.float32)
    g = tl.load(dy + row * stride + at, mask=inside, other=0).to(tl.float32)
    scale = tl.load(w + at, mask=inside, other=0).to(tl.float32)
    r = tl.load(rstd + row)
    xhat = tl.where(inside, (v - tl.load(mean + row)) * r, 0.0)
    wg = tl.where(inside, scale * g, 0.0)
    c1, c2 = tl.sum(xhat * wg, axis=0) / n, tl.sum(wg, axis=0) / n
    tl.store(dx + row * stride + at, (wg - (xhat * c1 + c2)) * r, mask=inside)
    group = row % GROUPS
    mine, used = lock + group, lock + GROUPS + group
    to_w, to_b = dw + group * n + at, db + group * n + at
    part_w, part_b = g * xhat, g
    while tl.atomic_cas(mine, 0, 1) == 1:
        pass
    if tl.load(used) == 0:
        tl.atomic_xchg(used, 1)
    else:
        part_w += tl.load(to_w, mask=inside)
        part_b += tl.load(to_b, mask=inside)
    tl.store(to_w, part_w, mask=inside)
    tl.store(to_b, part_b, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(mine, 0)


@triton.jit
def norm_sums(dw, db, out_w, out_b, groups, n, BM: tl.constexpr, BN: tl.constexpr):
    at = tl.program_id(0) * BN + tl.arange(0, BN)
    w, b = tl.zeros((BM, BN), dtype=tl.float32), tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, groups, BM):
        rows = i + tl.arange(0, BM)
        inside = (rows[:, None] < groups) & (at[None, :] < n)
        w += tl.load(dw + rows[:, None] * n + at[None, :], mask=inside, other=0.0)
        b += tl.load(db + rows[:, None] * n + at[None, :], mask=inside, other=0.0)
    tl.store(out_w + at, tl.sum(w, axis=0), mask=at < n)
    tl.store(out_b + at, tl.sum(b, axis=0), mask=at < n)


class TritonNorm(torch.autograd.Function):
    """Layer norm over the last axis."""

    @staticmethod
    def forward(ctx, x, w, b, eps):
        y = torch.empty_like(x)
        rows, n = x.shape
        mean, rstd = torch.empty(rows, device=x.device), torch.empty(rows, device=x.device)
        norm_forward[(rows,)](x, y, w, b, mean, rstd, x.stride(0), n, eps, BLOCK=128, num_warps=4)
        ctx.save_for_backward(x, w, mean, rstd)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, w, mean, rstd = ctx.saved_tensors
        rows, n = x.shape
        groups = 5
        locks = torch.zeros(2 * groups, dtype=torch.int32, device=x.device)
        parts = [torch.full((groups, n), float("nan"), device=x.device) for _ in range(2)]
        dx, dw, db = torch.empty_like(x), torch.empty_like(w), torch.empty_like(w)
        norm_backward[(rows,)](
            dx, dy, *parts, x, w, mean, rstd, locks, x.stride(0), n, GROUPS=groups,
            BLOCK=triton.next_power_of_2(n), num_warps=4, num_ctas=1,
        )  # fmt: skip
        norm_sums[lambda meta: (triton.cdiv(n, meta["BN"]),)](*parts, dw, db, groups, n, BM=4, BN=64, num_ctas=1)
        return dx, dw, db, None


def test_layer_norm_with_locks(device):
    rows, n = odd(20, 60), odd(130, 250)
    x, w, b, dy = torch.randn(rows, n) * 2 + 1, torch.rand(n) + 0.5, torch.randn(n), torch.randn(rows, n)
    own = [t.to(device).requires_grad_() for t in (x, w, b)]
    y = TritonNorm.apply(*own, 1e-5)
    y.backward(dy.to(device))
    wide = [t.double().requires_grad_() for t in (x, w, b)]
    expected = torch.nn.functional.layer_norm(wide[0], (n,), wide[1], wide[2], 1e-5)
    expected.backward(dy.double())
    # Mean and deviation are sums of n terms of this size, then a few roundings; rows are added one by one.
    steps = n // 128 + 20
    hat = ((wide[0] - wide[0].mean(1, keepdim=True)) / wide[0].std(1, keepdim=True)).detach()
    most = 4 * steps * U32 * (1 + (x.abs().max() / x.std(1).min()).double())
    assert ((y.detach().cpu().double() - expected).abs() <= most * (1 + hat.abs()) * w.double() + b.abs() * U32).all()
    size = (dy * w).abs().double()
    sums = size.mean(1, keepdim=True) * (1 + hat.abs()) * (1 + hat.abs().amax(1, keepdim=True))
    bound = most * 4 * (size + sums) / wide[0].std(1, keepdim=True).detach()
    assert ((own[0].grad.cpu().double() - wide[0].grad).abs() <= bound).all()
    bound = (most * 2 + rows * U32) * (dy.double().abs() * (1 + hat.abs())).sum(0)
    assert ((own[1].grad.cpu().double() - wide[1].grad).abs() <= bound).all()
    assert ((own[2].grad.cpu().double() - wide[2].grad).abs() <= rows * U32 * dy.double().abs().sum(0)).all()


# Products.


@triton.jit
def leaky(x):
    return tl.where(x >= 0, x, 0.01 * x)


CONFIGS = [
    triton.Config({"BM": 32, "BN": 32, "BK": 16, "GROUP": 2}, num_stages=3, num_warps=4),
    triton.Config({"BM": 16, "BN": 32, "BK": 32, "GROUP": 4}, num_stages=4, num_warps=2),
]


@triton.autotune(configs=CONFIGS, key=["M", "N", "K"])
@triton.jit
def tuned_product(
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP * tiles_n
    first = pid // in_group * GROUP
    height = min(tiles_m - first, GROUP)
    pid_m, pid_n = first + pid % in_group % height, pid % in_group // height
    tl.assume(pid_m >= 0)
    tl.assume(sam > 0)
    m, n, k = (pid_m * BM + tl.arange(0, BM)) % M, (pid_n * BN + tl.arange(0, BN)) % N, tl.arange(0, BK)
    left, right = a + (m[:, None] * sam + k[None, :] * sak), b + (k[:, None] * sbk + n[None, :] * sbn)
    kind: tl.constexpr = tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32
    sums = tl.zeros((BM, BN), dtype=kind)
    for i in range(0, tl.cdiv(K, BK)):
        x = tl.load(left, mask=k[None, :] < K - i * BK, other=0.0)
        y = tl.load(right, mask=k[:, None] < K - i * BK, other=0.0)
        sums = tl.dot(x, y, sums, out_dtype=kind)
        left += BK * sak
        right += BK * sbk
    if ACTIVATION == "leaky":
        sums = leaky(sums)
    r = sums.to(c.dtype.element_ty)
    m, n = pid_m * BM + tl.arange(0, BM), pid_n * BN + tl.arange(0, BN)
    tl.store(c + scm * m[:, None] + scn * n[None, :], r, mask=(m[:, None] < M) & (n[None, :] < N))


@pytest.mark.parametrize("dtype", [torch.float16, torch.int8, torch.float8_e5m2])
def test_a_tuned_product(device, dtype):
    m, n, k = odd(40, 90), odd(40, 90), odd(30, 80)
    if dtype == torch.int8:
        a, b = (torch.randint(-128, 128, s, dtype=dtype) for s in ((m, k), (k, n)))
        out = torch.empty(m, n, dtype=torch.int32, device=device)
    else:
        a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
        out = torch.empty(m, n, dtype=torch.float16, device=device)
    own_a, own_b = a.to(device), b.to(device)
    tuned_product[lambda meta: (triton.cdiv(m, meta["BM"]) * triton.cdiv(n, meta["BN"]),)](
        own_a, own_b, out, m, n, k, *own_a.stride(), *own_b.stride(), *out.stride(),
        ACTIVATION="" if dtype == torch.int8 else "leaky",
    )  # fmt: skip
    assert tuned_product.best_config in CONFIGS
    if dtype == torch.int8:
        assert torch.equal(out.cpu(), a.int() @ b.int())
        return
    exact = a.double() @ b.double()
    expected = torch.where(exact >= 0, exact, 0.01 * exact)
    bound = U32 * (k + 4) * (a.double().abs() @ b.double().abs()) + U16 * expected.abs() + TINY16
    assert ((out.cpu().double() - expected).abs() <= bound).all()


@triton.jit
def tile_of(tile, tiles_m, tiles_n, GROUP: tl.constexpr):
    in_group = GROUP * tiles_n
    first = tile // in_group * GROUP
    height = min(tiles_m - first, GROUP)
    return first + tile % height, tile % in_group // height


@triton.jit
def persistent_product(
    a, b, c, M, N, K, PROGRAMS: tl.constexpr,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, HALVES: tl.constexpr,
):  # fmt: skip
    left = tl.make_tensor_descriptor(a, shape=[M, K], strides=[K, 1], block_shape=[BM, BK])
    right = tl.make_tensor_descriptor(b, shape=[N, K], strides=[K, 1], block_shape=[BN, BK])
    out = tl.make_tensor_descriptor(c, shape=[M, N], strides=[N, 1], block_shape=[BM, BN if not HALVES else BN // 2])
    tiles_m, tiles_n = tl.cdiv(M, BM), tl.cdiv(N, BN)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, PROGRAMS, flatten=True):
        pid_m, pid_n = tile_of(tile, tiles_m, tiles_n, GROUP)
        m, n = pid_m * BM, pid_n * BN
        sums = tl.zeros((BM, BN), dtype=tl.float32)
        for i in range(tl.cdiv(K, BK)):
            sums = tl.dot(left.load([m, i * BK]), right.load([n, i * BK]).T, sums)
        if HALVES:
            first, second = tl.split(tl.permute(tl.reshape(sums, (BM, 2, BN // 2)), (0, 2, 1)))
            out.store([m, n], first.to(tl.float16))
            out.store([m, n + BN // 2], second.to(tl.float16))
        else:
            out.store([m, n], sums.to(tl.float16))


@triton.jit
def described_product(left, right, out, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m, n = tl.program_id(0) * BM, tl.program_id(1) * BN
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, K, BK):
        sums = tl.dot(left.load([m, k]), right.load([n, k]).T, sums)
    out.store([m, n], sums.to(out.dtype))


@pytest.mark.parametrize("form", ["device", "halves", "host"])
def test_products_by_descriptors(device, form):
    m, n, k = odd(40, 80), 8 * random.randrange(5, 12), 8 * random.randrange(4, 10)  # rows of 16 bytes
    a, b = torch.randn(m, k).half(), torch.randn(n, k).half()
    own_a, own_b = a.to(device), b.to(device)
    out = torch.zeros(m, n, dtype=torch.float16, device=device)
    if form == "host":
        blocks = [
            TensorDescriptor.from_tensor(t, s) for t, s in ((own_a, [32, 16]), (own_b, [32, 16]), (out, [32, 32]))
        ]
        described_product[(triton.cdiv(m, 32), triton.cdiv(n, 32))](*blocks, k, BM=32, BN=32, BK=16)
    else:
        persistent_product[(3,)](
            own_a, own_b, out, m, n, k, PROGRAMS=3, BM=32, BN=32, BK=16, GROUP=2, HALVES=form == "halves"
        )
    expected = a.double() @ b.double().t()
    bound = U32 * (k + 2) * (a.double().abs() @ b.double().abs().t()) + U16 * expected.abs() + TINY16
    assert ((out.cpu().double() - expected).abs() <= bound).all()


# What is refused, by name and place.


@triton.jit
def grouped_product(addresses, sizes, o, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for group in range(2):
        x = tl.load(addresses + group).to(tl.pointer_type(tl.float16))
        n = tl.load(sizes + group)
        tl.store(o + group * BLOCK + at, tl.load(x + at, mask=at < n, other=0.0))


def test_memory_behind_addresses_in_a_tensor_is_refused(device):
    parts = [torch.randn(16, device=device).half() for _ in range(2)]
    addresses = torch.tensor([t.data_ptr() for t in parts], device=device)
    sizes = torch.tensor([16, 16], dtype=torch.int32, device=device)
    out = torch.zeros(32, dtype=torch.float16, device=device)
    place = r"test_triton_tutorials\.py:\d+: tt\.int_to_ptr: a pointer that is made of a number"
    with pytest.raises(NotImplementedError, match=place):
        grouped_product[(1,)](addresses, sizes, out, BLOCK=16)


@triton.jit
def scaled_product(a, a_scale, b, b_scale, o):
    m, k, n, s = tl.arange(0, 32), tl.arange(0, 32), tl.arange(0, 32), tl.arange(0, 1)
    x, y = tl.load(a + m[:, None] * 32 + k[None, :]), tl.load(b + k[:, None] * 32 + n[None, :])
    xs, ys = tl.load(a_scale + m[:, None] + s[None, :]), tl.load(b_scale + n[:, None] + s[None, :])
    tl.store(o + m[:, None] * 32 + n[None, :], tl.dot_scaled(x, xs, "e4m3", y, ys, "e4m3"))


def test_products_with_scales_of_blocks_are_refused(device):
    a, b = (torch.randn(32, 32).to(torch.float8_e4m3fn).to(device) for _ in range(2))
    scales = torch.full((32,), 127, dtype=torch.uint8, device=device)
    with pytest.raises(NotImplementedError, match=r"test_triton_tutorials\.py:\d+: tt\.dot_scaled.* is not served"):
        scaled_product[(1,)](a, scales, b, scales, torch.empty(32, 32, device=device))


# Functions of other libraries.


@triton.jit
def arc_sine(x, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    tl.store(o + at, libdevice.asin(v), mask=at < n)


@pytest.mark.parametrize("folder", [None, {"libdevice": "/nowhere/libdevice.10.bc"}])
def test_asin_of_libdevice(device, folder):
    n = odd(500, 3000)
    x = torch.rand(n) * 2 - 1
    out = torch.empty(n, device=device)
    more = {} if folder is None else {"extern_libs": folder}
    arc_sine[(triton.cdiv(n, 512),)](x.to(device), out, n, BLOCK=512, **more)
    expected = x.double().asin()
    assert ((out.cpu().double() - expected).abs() <= 4 * 2 * U32 * expected.abs() + 2.0**-126).all()


def test_configurations_differ():
    assert all(a.all_kwargs() != b.all_kwargs() for a, b in itertools.combinations(CONFIGS, 2))

"""Kernels of Triton in which elements of a block meet: reductions, scans, shapes, indices, atomics, products."""

import pytest
import torch

triton = pytest.importorskip("triton", reason="triton is not installed")
import triton.language as tl  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*TRITON_DEFAULT_FP_FUSION", "ignore:.*can_reorder")


@triton.jit
def welford(mean_a, square_a, count_a, mean_b, square_b, count_b):
    delta = mean_b - mean_a
    count = count_a + count_b
    part = count_b / count
    return mean_a + delta * part, square_a + square_b + delta * delta * count_a * part, count


@triton.jit
def reduce_kernel(o, x, OP: tl.constexpr, AXIS: tl.constexpr, M: tl.constexpr, N: tl.constexpr, L: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, L)
    at = m[:, None, None] * (N * L) + n[None, :, None] * L + k[None, None, :]
    v = tl.load(x + at)
    if OP == "sum":
        r = tl.sum(v, AXIS)
    elif OP == "max":
        r = tl.max(v, AXIS)
    elif OP == "min":
        r = tl.min(v, AXIS)
    elif OP == "argmax":
        r = tl.argmax(v, AXIS)
    elif OP == "argmin":
        r = tl.argmin(v, AXIS)
    elif OP == "xor":
        r = tl.xor_sum(v, AXIS)
    elif OP == "var":
        mean, square, count = tl.reduce((v, tl.zeros_like(v), tl.zeros_like(v) + 1), AXIS, welford)
        r = square / count
    if AXIS == 0:
        to = n[:, None] * L + k[None, :]
    elif AXIS == 1:
        to = m[:, None] * L + k[None, :]
    else:
        to = m[:, None] * N + n[None, :]
    tl.store(o + to, r)


REDUCTIONS = {
    "sum": torch.sum, "max": torch.amax, "min": torch.amin, "argmax": torch.argmax, "argmin": torch.argmin,
    "var": lambda x, axis: x.var(axis, unbiased=False),
}  # fmt: skip


@pytest.mark.parametrize("shape", [(4, 8, 16), (1, 1, 1024), (64, 2, 1), (2, 256, 2), (32, 1, 32)])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("op", [*REDUCTIONS, "xor"])
def test_reductions(device, op, axis, shape):
    integer = op == "xor"
    x = torch.randint(-99, 99, shape, dtype=torch.int32) if integer else torch.randn(shape)
    if op in ("argmax", "argmin"):
        x = torch.randint(-5, 5, shape).float()  # ties: the first one
    out_shape = [n for i, n in enumerate(shape) if i != axis]
    kind = torch.int32 if integer or op.startswith("arg") else torch.float32
    out = torch.full(out_shape, 77, dtype=kind, device=device)
    reduce_kernel[(1,)](out, x.to(device), OP=op, AXIS=axis, M=shape[0], N=shape[1], L=shape[2])
    if op == "xor":
        expected = torch.zeros(out_shape, dtype=torch.int32)
        for part in x.unbind(axis):
            expected ^= part
        assert torch.equal(out.cpu(), expected)
        return
    expected = REDUCTIONS[op](x.double(), axis)
    if op in ("sum", "var"):
        # n - 1 additions of terms of this size, each rounded once; the variance's are squares, rounded thrice more.
        terms = x.double().abs().sum(axis) if op == "sum" else x.double().square().sum(axis)
        bound = 2.0**-24 * (shape[axis] + 4) * terms * (1 if op == "sum" else 4) + 1e-12
        assert ((out.cpu().double() - expected).abs() <= bound).all()
    elif op.startswith("arg"):
        assert torch.equal(out.cpu().long(), expected)
    else:
        assert torch.equal(out.cpu().double(), expected)


@triton.jit
def whole_kernel(o, x, n, BLOCK: tl.constexpr):
    total = 0.0
    for begin in range(0, n, BLOCK):
        at = begin + tl.arange(0, BLOCK)
        total += tl.sum(tl.load(x + at, mask=at < n, other=0.0))
    tl.store(o, total)


@pytest.mark.parametrize("warps", [1, 2, 8, 32])
@pytest.mark.parametrize("block", [1, 16, 512, 4096])
def test_sums_of_a_long_row(device, block, warps):
    n = 70_003 if block > 16 else 301
    x = torch.randn(n)
    out = torch.zeros(1, device=device)
    whole_kernel[(1,)](out, x.to(device), n, BLOCK=block, num_warps=warps)
    # An element passes through at most n / block + block + 12 additions.
    assert (
        abs(out.item() - x.double().sum().item())
        <= 2.0**-24 * (n // block + block + 12) * x.double().abs().sum().item()
    )


@triton.jit
def add(a, b):
    return a + b


@triton.jit
def affine(scale_a, shift_a, scale_b, shift_b):
    return scale_a * scale_b, shift_a * scale_b + shift_b


@triton.jit
def scan_kernel(o, x, y, OP: tl.constexpr, AXIS: tl.constexpr, BACK: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    if OP == "sum":
        r = tl.cumsum(v, AXIS, reverse=BACK)
    elif OP == "prod":
        r = tl.cumprod(v, AXIS, reverse=BACK)
    else:
        _, r = tl.associative_scan((v, tl.load(y + at)), AXIS, affine, reverse=BACK)
    tl.store(o + at, r)


@pytest.mark.parametrize("shape", [(1, 1024), (32, 32), (8, 128), (512, 2), (2, 4)])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("back", [False, True])
@pytest.mark.parametrize("op", ["sum", "prod", "affine"])
def test_scans(device, op, back, axis, shape):
    x = torch.randint(-9, 9, shape).float() if op == "sum" else torch.rand(shape) * 0.5 + 0.75
    y = torch.randn(shape)
    out = torch.full(shape, 77.0, device=device)
    scan_kernel[(1,)](out, x.to(device), y.to(device), OP=op, AXIS=axis, BACK=back, M=shape[0], N=shape[1])
    turn = (lambda t: t.flip(axis)) if back else (lambda t: t)
    a, b = turn(x.double()), turn(y.double())
    if op == "sum":
        assert torch.equal(out.cpu().double(), turn(a.cumsum(axis)))  # integers below 2^24
        return
    if op == "prod":
        expected, size = a.cumprod(axis), a.cumprod(axis)
    else:
        state = size = torch.zeros_like(b.select(axis, 0))
        rows, sizes = [], []
        for s, t in zip(a.unbind(axis), b.unbind(axis)):
            state, size = state * s + t, size * s + t.abs()
            rows.append(state)
            sizes.append(size)
        expected, size = torch.stack(rows, axis), torch.stack(sizes, axis)
    # At most three roundings a step, of terms whose sizes add up to `size`.
    assert ((out.cpu().double() - turn(expected)).abs() <= turn(size) * 2.0**-24 * 3 * (shape[axis] + 1)).all()


@triton.jit
def shapes_kernel(o, x, CASE: tl.constexpr, M: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    v = tl.load(x + at)
    flat = tl.arange(0, M * N)
    if CASE == "trans":
        r = tl.reshape(tl.trans(v), (M * N,))
    elif CASE == "reshape":
        r = tl.reshape(tl.trans(tl.reshape(v, (N, M))), (M * N,))
    elif CASE == "split":
        a, b = tl.split(tl.reshape(v, (M, N // 2, 2)))
        r = tl.reshape(tl.join(b, a * 2), (M * N,))
    elif CASE == "interleave":
        a, b = tl.split(tl.permute(tl.reshape(v, (M, 2, N // 2)), (0, 2, 1)))
        r = tl.reshape(tl.interleave(a, b), (M * N,))
    elif CASE == "outer":
        r = tl.reshape(v + tl.sum(v, 1)[:, None] + tl.max(v, 0)[None, :], (M * N,))
    elif CASE == "sort":
        r = tl.reshape(tl.sort(v, 1), (M * N,))
    elif CASE == "flip":
        r = tl.reshape(tl.flip(v, 1), (M * N,))
    elif CASE == "gather":
        index = (at * 7 + 3) % N
        r = tl.reshape(tl.gather(v, index, 1), (M * N,))
    tl.store(o + flat, r)


def shaped(case, x):
    m, n = x.shape
    if case == "trans":
        return x.t()
    if case == "reshape":
        return x.reshape(n, m).t()
    if case == "split":
        a, b = x.reshape(m, n // 2, 2).unbind(-1)
        return torch.stack((b, a * 2), -1)
    if case == "interleave":
        return torch.stack(x.reshape(m, 2, n // 2).unbind(1), -1)
    if case == "outer":
        return x + x.sum(1, keepdim=True) + x.amax(0, keepdim=True)
    if case == "sort":
        return x.sort(1).values
    if case == "flip":
        return x.flip(1)
    return x.gather(1, (torch.arange(m * n).view(m, n) * 7 + 3) % n)


@pytest.mark.parametrize("shape", [(16, 32), (64, 4), (2, 128), (128, 128)])
@pytest.mark.parametrize("case", ["trans", "reshape", "split", "interleave", "outer", "sort", "flip", "gather"])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float16, torch.int64])
def test_shapes(device, dtype, case, shape):
    if shape == (128, 128) and case in ("sort", "flip") or case == "sort" and dtype == torch.int64:
        pytest.skip("Triton's networks of 16,384 elements, or of 64-bit ones, compile for minutes on lavapipe")
    if case == "gather" and shape == (128, 128):
        pytest.skip("a gather from more than the shared memory that every device has")
    x = torch.randint(-30, 30, shape).to(dtype)
    out = torch.full((x.numel(),), 77, dtype=dtype, device=device)
    shapes_kernel[(1,)](out, x.to(device), CASE=case, M=shape[0], N=shape[1])
    assert torch.equal(out.cpu(), shaped(case, x).reshape(-1).to(dtype))


@triton.jit
def histogram_kernel(o, x, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n, other=0)
    tl.store(o + tl.arange(0, BINS), tl.histogram(v, BINS, mask=at < n))


def test_histogram(device):
    x = torch.randint(0, 32, (300,), dtype=torch.int32)
    out = torch.full((32,), 77, dtype=torch.int32, device=device)
    histogram_kernel[(1,)](out, x.to(device), 300, BLOCK=512, BINS=32)
    assert torch.equal(out.cpu().long(), torch.bincount(x, minlength=32))


@triton.jit
def atomic_kernel(o, old, x, n, OP: tl.constexpr, BINS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n)
    to = o + at % BINS
    if OP == "add":
        tl.atomic_add(to, v, mask=at < n)
    elif OP == "max":
        tl.atomic_max(to, v, mask=at < n, sem="relaxed")
    elif OP == "min":
        tl.atomic_min(to, v, mask=at < n)
    elif OP == "xor":
        tl.atomic_xor(to, v, mask=at < n)
    elif OP == "ticket":  # what was there before is a number of one's own
        tl.store(old + at, tl.atomic_add(to, 1, mask=at < n), mask=at < n)
    elif OP == "scalar":
        before = tl.atomic_add(o, tl.sum(tl.where(at < n, v, 0)))
        tl.store(old + at, tl.zeros((BLOCK,), tl.int32) + before, mask=at < n)


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("op", ["add", "max", "min", "xor", "ticket", "scalar"])
def test_atomics(device, op, dtype):
    if (
        op in ("xor", "ticket", "scalar")
        and dtype != torch.int32
        or op != "add"
        and dtype in (torch.float16, torch.bfloat16)
    ):
        pytest.skip("Triton has this of other types")
    n, bins, block = 1000, 16, 64
    x = torch.randint(-8, 8, (n,)).to(dtype)
    start = torch.randint(-8, 8, (bins,)).to(dtype)
    out, old = start.to(device), torch.full((n,), -99, dtype=torch.int32, device=device)
    atomic_kernel[(triton.cdiv(n, block),)](out, old, x.to(device), n, OP=op, BINS=bins, BLOCK=block)
    bin_of = torch.arange(n) % bins
    if op == "ticket":
        for b in range(bins):
            count = int((bin_of == b).sum())
            assert sorted(old.cpu()[bin_of == b].tolist()) == list(range(int(start[b]), int(start[b]) + count))
        return
    if op == "scalar":
        assert out[0].item() == start[0] + x.sum()
        # In some order, each program found the sum of those before it.
        firsts = old.cpu()[::block].tolist()
        sums = [int(part.sum()) for part in x.split(block)]
        reached = {int(start[0])} | {first + own for first, own in zip(firsts, sums)}
        assert set(firsts) <= reached
        return
    expected = start.clone().double()
    for i in range(n):
        b, v = int(bin_of[i]), x[i].double()
        if op == "add":
            expected[b] += v
        elif op == "xor":
            expected[b] = int(expected[b]) ^ int(v)
        else:
            expected[b] = (max if op == "max" else min)(expected[b], v)
    assert torch.equal(out.cpu().double(), expected)  # small integers: sums in any order are the same


@triton.jit
def locked_kernel(total, lock, x, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    v = tl.load(x + tl.program_id(0) * BLOCK + at)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(total + at, tl.load(total + at) + v)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


def test_a_lock_guards_a_sum(device):
    programs, block = 40, 256
    x = torch.randint(-9, 9, (programs, block), dtype=torch.int32)
    total, lock = torch.zeros(block, dtype=torch.int32, device=device), torch.zeros(1, dtype=torch.int32, device=device)
    locked_kernel[(programs,)](total, lock, x.to(device), programs, BLOCK=block)
    assert torch.equal(total.cpu(), x.sum(0).int())


@triton.jit
def matmul_kernel(
    a, b, c, bias, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr, RELU: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * columns) * GROUP
    size = min(rows - first, GROUP)
    m = (first + pid % (GROUP * columns) % size) * BM + tl.arange(0, BM)
    n = pid % (GROUP * columns) // size * BN + tl.arange(0, BN)
    k = tl.arange(0, BK)
    left, right = a + m[:, None] * sam + k[None, :] * sak, b + k[:, None] * sbk + n[None, :] * sbn
    out_type: tl.constexpr = tl.int32 if a.dtype.element_ty == tl.int8 else tl.float32
    sums = tl.zeros((BM, BN), dtype=out_type)
    for i in range(0, tl.cdiv(K, BK)):
        x = tl.load(left, mask=(m[:, None] < M) & (k[None, :] < K - i * BK), other=0)
        y = tl.load(right, mask=(k[:, None] < K - i * BK) & (n[None, :] < N), other=0)
        sums = tl.dot(x, y, sums, out_dtype=out_type)
        left += BK * sak
        right += BK * sbk
    if RELU:
        sums = tl.maximum(sums + tl.load(bias + n, mask=n < N, other=0)[None, :], 0)
    tl.store(
        c + m[:, None] * scm + n[None, :] * scn, sums.to(c.dtype.element_ty), mask=(m[:, None] < M) & (n[None, :] < N)
    )


def product(a, b, out, blocks=(32, 64, 16), bias=None, warps=4, stages=3):
    (m, k), n = a.shape, b.shape[1]
    grid = (triton.cdiv(m, blocks[0]) * triton.cdiv(n, blocks[1]),)
    matmul_kernel[grid](
        a, b, out, bias if bias is not None else a, m, n, k, *a.stride(), *b.stride(), *out.stride(),
        BM=blocks[0], BN=blocks[1], BK=blocks[2], GROUP=2, RELU=bias is not None, num_warps=warps, num_stages=stages,
    )  # fmt: skip
    return out


@pytest.mark.current_lavapipe  # with matrix units
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int8])
@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize("blocks,warps,stages", [((32, 64, 16), 4, 3), ((16, 16, 16), 1, 1), ((64, 32, 32), 8, 2)])
def test_products(device, blocks, warps, stages, turned, dtype):
    m, n, k = 77, 93, 51
    if dtype == torch.int8:
        a, b = torch.randint(-128, 128, (m, k), dtype=dtype), torch.randint(-128, 128, (k, n), dtype=dtype)
    else:
        a, b = torch.randn(m, k).to(dtype), torch.randn(k, n).to(dtype)
    own = [t.t().contiguous().to(device).t() if name in turned else t.to(device) for t, name in ((a, "a"), (b, "b"))]
    kind = torch.int32 if dtype == torch.int8 else torch.float32
    out = torch.full((m + 1, n + 3), 77, dtype=kind, device=device)
    product(*own, out[:m, :n], blocks, warps=warps, stages=stages)
    expected = a.double() @ b.double()
    bound = 2.0**-24 * (k + 2) * (a.double().abs() @ b.double().abs()) * (dtype != torch.int8)
    assert ((out[:m, :n].cpu().double() - expected).abs() <= bound).all()
    assert (out[m:].cpu() == 77).all() and (out[:, n:].cpu() == 77).all()


@triton.jit
def tile_kernel(a, b, c, N: tl.constexpr, K: tl.constexpr):
    n, k = tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + n[:, None] * K + k[None, :])
    y = tl.load(b + k[:, None] * N + n[None, :])
    tl.store(c + n[:, None] * N + n[None, :], tl.dot(x, y))


@pytest.mark.parametrize("n,k", [(64, 64), (32, 256), (16, 512)])
def test_products_of_more_than_shared_memory_holds(device, n, k):
    """Operands pass in pieces: these have 34, 67 and 67 KB."""
    a, b = torch.randn(n, k), torch.randn(k, n)
    out = torch.full((n, n), float("nan"), device=device)
    tile_kernel[(1,)](a.to(device), b.to(device), out, N=n, K=k)
    bound = 2.0**-24 * (k + 2) * (a.double().abs() @ b.double().abs())
    assert ((out.cpu().double() - a.double() @ b.double()).abs() <= bound).all()


@pytest.mark.current_lavapipe
def test_product_with_bias_and_relu_in_half(device):
    a, b, bias = torch.randn(64, 40).half(), torch.randn(40, 48).half(), torch.randn(48)
    out = torch.empty(64, 48, dtype=torch.float16, device=device)
    product(a.to(device), b.to(device), out, bias=bias.to(device))
    expected = (a.double() @ b.double() + bias.double()).clamp(min=0)
    bound = 2.0**-24 * 42 * (a.double().abs() @ b.double().abs() + bias.abs()) + 2.0**-11 * expected + 2.0**-25
    assert ((out.cpu().double() - expected).abs() <= bound).all()

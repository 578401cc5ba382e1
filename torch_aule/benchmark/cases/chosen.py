"""Cases of sizes that the command line gives: products, attention, decoding, convolutions, reference kernels."""

from __future__ import annotations

import functools
import itertools

import torch
import torch.nn.functional as F

from torch_aule.benchmark.cases.attention import FLASH_AND_CUDNN
from torch_aule.benchmark.harness.case import Case, Sizes, Wanted, short
from torch_aule.benchmark.harness.kernels import KERNELS, seeded
from torch_aule.benchmark.harness.timing import peak_mib

COMPARED = 1 << 16  # elements of a result that are held against the baseline's
TOLERANCES = {"float64": 1e-6, "float32": 1e-3, "float16": 1e-2}  # relative, in the Euclidean norm
HEADS, KV_HEADS, DIM = 16, 8, 64
CHANNELS = 64


def output(device: str, call) -> dict:
    """`values` of a case: elements of what a call gives, spread over it, and the memory that it takes."""
    results, peak = peak_mib(device, call)
    results = results if isinstance(results, tuple) else (results,)
    found = []
    for result in results:
        flat = result.detach().flatten()
        found += flat[:: max(1, flat.numel() // COMPARED)].float().cpu().tolist()
    return {"output": found, **({} if peak is None else {"peak_mib": peak})}


def _case(sizes: Sizes, group: str, name: str, shapes: str, dtype: torch.dtype, make, **more) -> Case:
    clock = "wall" if sizes.software else "events"
    return Case(group, name, shapes, short(dtype), make, clock=clock, values=output,
                tolerance=TOLERANCES.get(short(dtype), 3e-2), **more)  # fmt: skip


def _product(sizes, group, m, n, k, dtype) -> Case:
    def make(device):
        a = seeded(m, k, device=device, dtype=dtype)
        b = seeded(n, k, device=device, dtype=dtype, seed=1)
        if dtype.itemsize > 1:
            return lambda: F.linear(a, b)
        one = torch.ones((), device=device)
        return lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16)

    moved = float(dtype.itemsize * (m * k + n * k) + max(2, dtype.itemsize) * m * n)
    # A product of one row is bound by the bytes of the weights; its rate is theirs.
    work = {"flops": 2.0 * m * n * k} if m > 1 else {}
    return _case(sizes, group, "linear", f"{m}x{k} by {n}x{k}", dtype, make, bytes=moved, **work)


def gemm(sizes: Sizes, wanted: Wanted) -> list[Case]:
    extents = wanted.sizes or ((512, 1024) if sizes.software else sizes.gemm)
    return [_product(sizes, "gemm", n, n, n, dtype) for n, dtype in itertools.product(extents, _dtypes(wanted, sizes))]


def gemv(sizes: Sizes, wanted: Wanted) -> list[Case]:
    extents = wanted.sizes or ((1024, 2048) if sizes.software else sizes.gemm)
    # float8 products are of 16 rows at least
    return [
        _product(sizes, "gemv", 1 if dtype.itemsize > 1 else 16, n, n, dtype)
        for n, dtype in itertools.product(extents, _dtypes(wanted, sizes))
    ]


def _dtypes(wanted: Wanted, sizes: Sizes, products: bool = True) -> list[torch.dtype]:
    names = wanted.dtypes or (("float32",) if sizes.software else ("float16", "bfloat16"))
    found = [getattr(torch, name) for name in names]
    return [dtype for dtype in found if products or dtype.itemsize > 1]


def _libraries(batch, heads, kv_heads, queries, keys, causal, backward, dtype) -> dict:
    """The same attention by flash_attn and xFormers, whose tensors are [B, N, H, D]."""

    def maker(library):
        def make(device):
            if library == "fa2":
                from flash_attn import flash_attn_func as attend
            else:
                from xformers.ops import LowerTriangularMask, memory_efficient_attention
            q, k, v, weight = _inputs(batch, heads, kv_heads, queries, keys, backward, dtype, device)
            q, k, v, weight = (t.detach().transpose(1, 2).requires_grad_(backward) for t in (q, k, v, weight))

            def forward():
                if library == "fa2":
                    return attend(q, k, v, causal=causal)
                many = [t.repeat_interleave(heads // kv_heads, 2) for t in (k, v)]
                return memory_efficient_attention(q, *many, attn_bias=LowerTriangularMask() if causal else None)

            if not backward:
                return lambda: forward().transpose(1, 2)
            out = forward()
            return lambda: tuple(
                g.transpose(1, 2) for g in torch.autograd.grad(out, (q, k, v), weight, retain_graph=True)
            )

        return make

    return {name: maker(name) for name in ("fa2", "xformers")}


def _inputs(batch, heads, kv_heads, queries, keys, backward, dtype, device):
    shapes = [(heads, queries), (kv_heads, keys), (kv_heads, keys), (heads, queries)]
    return [
        seeded(batch, h, n, DIM, device=device, dtype=dtype, seed=seed, grad=backward and seed < 3)
        for seed, (h, n) in enumerate(shapes)
    ]


def _attention(sizes, group, name, batch, heads, kv_heads, queries, keys, causal, backward, dtype) -> Case:
    def make(device):
        q, k, v, weight = _inputs(batch, heads, kv_heads, queries, keys, backward, dtype, device)

        def forward():
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=kv_heads != heads)

        if not backward:
            return forward
        out = forward()
        return lambda: torch.autograd.grad(out, (q, k, v), weight, retain_graph=True)

    pairs = batch * heads * queries * keys * (0.5 if causal else 1)
    elements = batch * DIM * (2 * heads * queries + 2 * kv_heads * keys) * (2 if backward else 1)
    work = {"flops": 4.0 * pairs * DIM * (2.5 if backward else 1)} if queries > 1 else {}
    where = f"B{batch} H{heads}/{kv_heads} N{queries} D{DIM}" if queries > 1 else f"B{batch} H{heads}/{kv_heads} D{DIM}"
    return _case(
        sizes, group, name, where if queries > 1 else f"{where} keys {keys}", dtype, make, **work,
        bytes=float(elements * dtype.itemsize), autograd=backward, baselines=FLASH_AND_CUDNN,
        makers=_libraries(batch, heads, kv_heads, queries, keys, causal, backward, dtype),
        needed_bytes=dtype.itemsize * elements // 2 if not backward else 0,
    )  # fmt: skip


def attention(sizes: Sizes, wanted: Wanted) -> list[Case]:
    lengths = wanted.lengths or ((128, 256) if sizes.software else (512, 1024, 2048, 4096, 8192))
    cases = []
    for dtype, batch, n in itertools.product(_dtypes(wanted, sizes, False), wanted.batches or (1,), lengths):
        for causal, backward in itertools.product((False, True), (False, True) if wanted.backward else (False,)):
            name = f"sdpa_{'backward' if backward else 'forward'}{'_causal' if causal else ''}"
            case = _attention(sizes, "attention", name, batch, HEADS, HEADS, n, n, causal, backward, dtype)
            cases.append(case)
    return cases


def decode(sizes: Sizes, wanted: Wanted) -> list[Case]:
    lengths = wanted.lengths or ((1024,) if sizes.software else sizes.decode_keys)
    return [
        _attention(sizes, "decode", "decode", batch, HEADS, KV_HEADS, 1, n, False, False, dtype)
        for dtype, batch, n in itertools.product(_dtypes(wanted, sizes, False), wanted.batches or (1, 2, 4, 8), lengths)
    ]


def conv(sizes: Sizes, wanted: Wanted) -> list[Case]:
    """A convolution of 3x3 that keeps the extent, of 64 channels."""

    def case(extent, batch, backward, dtype):
        def make(device):
            x = seeded(batch, CHANNELS, extent, extent, device=device, dtype=dtype, grad=backward)
            w = seeded(CHANNELS, CHANNELS, 3, 3, device=device, dtype=dtype, seed=1, grad=backward)
            if not backward:
                return lambda: F.conv2d(x, w, padding=1)
            out = F.conv2d(x, w, padding=1)
            weight = seeded(*out.shape, device=device, dtype=dtype, seed=2)
            return lambda: torch.autograd.grad(out, (x, w), weight, retain_graph=True)

        points, weights = batch * CHANNELS * extent**2, CHANNELS**2 * 9
        return _case(
            sizes, "conv", "conv2d_backward" if backward else "conv2d", f"3x3 {CHANNELS}>{CHANNELS} {extent} B{batch}",
            dtype, make, flops=2.0 * points * CHANNELS * 9 * (2 if backward else 1), autograd=backward,
            bytes=float(dtype.itemsize * ((3 if backward else 2) * points + (2 if backward else 1) * weights)),
        )  # fmt: skip

    extents = wanted.sizes or ((28,) if sizes.software else (28, 56, 112))
    batches = wanted.batches or ((1,) if sizes.software else (32,))
    modes = (False, True) if wanted.backward else (False,)
    return [
        case(extent, batch, backward, dtype)
        for dtype, batch, extent, backward in itertools.product(_dtypes(wanted, sizes, False), batches, extents, modes)
    ]


def kernel_cases(sizes: Sizes, wanted: Wanted, name: str) -> list[tuple[dict[str, int], str, Case]]:
    """A kernel's cases, each behind its sizes and its mode."""
    kernel = KERNELS[name]
    other = {**({size: 256 for size in kernel.other} if sizes.software else {}), **wanted.other}
    modes = wanted.modes or (("forward", "backward") if wanted.backward else ("forward",))
    extents = [kernel.sizes(x, other) for x in wanted.sizes or ((256,) if sizes.software else (1024, 4096, 16384))]
    cases = []
    for extent, dtype, mode in itertools.product(extents, _dtypes(wanted, sizes, False), modes):
        moved, flops = kernel.work(extent, dtype, mode)

        def make(device, extent=extent, dtype=dtype, mode=mode, composed=False):
            return kernel.make(extent, dtype, mode, device, composed=composed)

        makers = {"composed": functools.partial(make, composed=True)} if kernel.function != kernel.composed else None
        shapes = " ".join(f"{size} {value}" for size, value in extent.items())
        label = name if mode == "forward" else f"{name}_{mode}"
        case = _case(sizes, "kernels", label, shapes, dtype, make, bytes=moved, flops=flops, makers=makers,
                     autograd=mode != "forward")  # fmt: skip
        cases.append((extent, mode, case))
    return cases


FAMILIES = {"gemm": gemm, "gemv": gemv, "attention": attention, "decode": decode, "conv": conv}


def chosen(sizes: Sizes) -> list[Case]:
    """The cases that `sizes.wanted` describes; none without it."""
    wanted = sizes.wanted
    if wanted is None:
        return []
    cases = [case for family in wanted.families for case in FAMILIES[family](sizes, wanted)]
    return cases + [case for name in wanted.kernels for *_, case in kernel_cases(sizes, wanted, name)]

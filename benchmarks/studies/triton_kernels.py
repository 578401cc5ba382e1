"""Kernels of Triton on this device beside Triton's own CUDA backend, in one process: medians, the best of some shapes.

python benchmarks/studies/triton_kernels.py [--small] [--only NAME]
"""

import argparse
import statistics
import sys

import torch
import triton
import triton.language as tl

from torch_aule.measure.timing import Stopwatch


@triton.jit
def add_kernel(x, y, o, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(o + at, tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n), mask=at < n)


@triton.jit
def softmax_kernel(o, x, stride, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * stride + at, mask=at < n, other=-float("inf"))
    e = tl.exp(v - tl.max(v, 0))
    tl.store(o + row * stride + at, e / tl.sum(e, 0), mask=at < n)


@triton.jit
def layer_norm_kernel(o, x, weight, bias, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < n
    v = tl.load(x + row * n + at, mask=mask, other=0).to(tl.float32)
    mean = tl.sum(v, 0) / n
    centred = tl.where(mask, v - mean, 0)
    scale = 1 / tl.sqrt(tl.sum(centred * centred, 0) / n + eps)
    w, b = tl.load(weight + at, mask=mask), tl.load(bias + at, mask=mask)
    tl.store(o + row * n + at, (centred * scale * w + b).to(o.dtype.element_ty), mask=mask)


@triton.jit
def matmul_kernel(
    a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    rows, columns = tl.cdiv(M, BM), tl.cdiv(N, BN)
    first = pid // (GROUP * columns) * GROUP
    size = min(rows - first, GROUP)
    m = ((first + pid % (GROUP * columns) % size) * BM + tl.arange(0, BM)) % M
    n = (pid % (GROUP * columns) // size * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    left, right = a + m[:, None] * sam + k[None, :] * sak, b + k[:, None] * sbk + n[None, :] * sbn
    sums = tl.zeros((BM, BN), dtype=tl.float32)
    for i in range(0, tl.cdiv(K, BK)):
        x = tl.load(left, mask=k[None, :] < K - i * BK, other=0)
        y = tl.load(right, mask=k[:, None] < K - i * BK, other=0)
        sums = tl.dot(x, y, sums)
        left += BK * sak
        right += BK * sbk
    om = (first + pid % (GROUP * columns) % size) * BM + tl.arange(0, BM)
    on = pid % (GROUP * columns) // size * BN + tl.arange(0, BN)
    to = c + om[:, None] * scm + on[None, :] * scn
    tl.store(to, sums.to(c.dtype.element_ty), mask=(om[:, None] < M) & (on[None, :] < N))


@triton.jit
def attention_kernel(q, k, v, o, scale, n, CAUSAL: tl.constexpr, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    base = tl.program_id(1).to(tl.int64) * n * D
    own = base + rows[:, None] * D + d[None, :]
    queries = tl.load(q + own, mask=rows[:, None] < n, other=0)
    largest = tl.full([BM], -float("inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    sums = tl.zeros([BM, D], tl.float32)
    last = n
    if CAUSAL:
        last = min(n, (tl.program_id(0) + 1) * BM)
    for begin in range(0, last, BN):
        columns = begin + tl.arange(0, BN)
        at = base + columns[:, None] * D + d[None, :]
        keys = tl.load(k + at, mask=columns[:, None] < n, other=0)
        scores = tl.dot(queries, tl.trans(keys)) * (scale * 1.44269504)
        seen = columns[None, :] < n
        if CAUSAL:
            seen = seen & (columns[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, -1e30)
        now = tl.maximum(largest, tl.max(scores, 1))
        p = tl.exp2(scores - now[:, None])
        shrink = tl.exp2(largest - now)
        total = total * shrink + tl.sum(p, 1)
        values = tl.load(v + at, mask=columns[:, None] < n, other=0)
        sums = tl.dot(p.to(v.dtype.element_ty), values, sums * shrink[:, None])
        largest = now
    tl.store(o + own, (sums / total[:, None]).to(o.dtype.element_ty), mask=rows[:, None] < n)


def synchronize(device):
    (torch.cuda if device == "cuda" else torch.aule).synchronize()


def seconds(device, run, target):
    """The median time of a call: several in a row, so that what the host takes is hidden."""

    def of(count):
        synchronize(device)
        watch = Stopwatch()
        for _ in range(count):
            run()
        synchronize(device)
        return watch.seconds / count

    run()
    count = max(3, min(200, int(target / 5 / max(1e-6, of(1)))))
    return statistics.median(of(count) for _ in range(5))


def best(device, runs, target):
    """The fastest of several forms: its name and its time; a form that the device cannot take is left out."""
    found, refused = {}, ""
    for name, run in runs.items():
        try:
            found[name] = seconds(device, run, target)
        except Exception as error:
            refused = f"{name}: {type(error).__name__}: {str(error)[:90]}"
    if not found:
        raise RuntimeError(refused)
    name = min(found, key=found.get)
    return name, found[name]


def elementwise(device, small):
    n = 1 << (16 if small else 26)
    x, y, o = (torch.randn(n, device=device) for _ in range(3))

    def run(block, warps):
        add_kernel[(triton.cdiv(n, block),)](x, y, o, n, BLOCK=block, num_warps=warps)

    runs = {
        f"{block}/{warps}": lambda b=block, w=warps: run(b, w) for block, warps in ((1024, 4), (2048, 4), (4096, 8))
    }
    return runs, lambda: (o, x.double() + y.double(), 1e-6), 12 * n, "GB/s"


def softmax(device, small):
    rows, n = (64, 781) if small else (4096, 8192)
    x = torch.randn(rows, n, device=device)
    o = torch.empty_like(x)
    block = triton.next_power_of_2(n)
    runs = {f"{w} warps": lambda w=w: softmax_kernel[(rows,)](o, x, n, n, BLOCK=block, num_warps=w) for w in (4, 8, 16)}
    return runs, lambda: (o, x.double().softmax(-1), 1e-5), 8 * rows * n, "GB/s"


def layer_norm(device, small):
    rows, n = (64, 781) if small else (8192, 4096)
    x = torch.randn(rows, n, device=device).half()
    weight, bias = torch.randn(2, n, device=device)
    o = torch.empty_like(x)
    block = triton.next_power_of_2(n)
    runs = {
        f"{w} warps": lambda w=w: layer_norm_kernel[(rows,)](o, x, weight, bias, n, 1e-5, BLOCK=block, num_warps=w)
        for w in (4, 8, 16)
    }

    def check():
        return o, torch.nn.functional.layer_norm(x.double(), (n,), weight.double(), bias.double()), 5e-3

    return runs, check, 4 * rows * n, "GB/s"


def matmul(device, small):
    n = 192 if small else 4096
    a, b = (torch.randn(n, n, device=device).half() for _ in range(2))
    c = torch.empty(n, n, device=device, dtype=torch.float16)

    def run(bm, bn, bk, warps, stages):
        grid = (triton.cdiv(n, bm) * triton.cdiv(n, bn),)
        matmul_kernel[grid](
            a, b, c, n, n, n, *a.stride(), *b.stride(), *c.stride(), BM=bm, BN=bn, BK=bk, GROUP=8, num_warps=warps,
            num_stages=stages,
        )  # fmt: skip

    shapes = [(32, 32, 16, 4, 2)] if small else [
        (128, 128, 32, 4, 4), (128, 128, 64, 4, 3), (128, 128, 32, 8, 4), (128, 256, 32, 8, 3), (128, 256, 64, 8, 3),
        (256, 128, 32, 8, 3), (64, 128, 64, 4, 4),
    ]  # fmt: skip
    runs = {"x".join(map(str, shape)): lambda s=shape: run(*s) for shape in shapes}
    return runs, lambda: (c, a.double() @ b.double(), 0.2), 2 * n**3, "TFLOPS"


def attention(device, small, causal=False):
    heads, n, d = (2, 150, 32) if small else (64, 4096, 64)
    q, k, v = (torch.randn(heads, n, d, device=device).half() for _ in range(3))
    o = torch.empty_like(q)

    def run(bm, bn, warps, stages):
        grid = (triton.cdiv(n, bm), heads)
        attention_kernel[grid](
            q, k, v, o, d**-0.5, n, CAUSAL=causal, D=d, BM=bm, BN=bn, num_warps=warps, num_stages=stages
        )

    shapes = [(32, 32, 4, 2)] if small else [(128, 64, 4, 3), (128, 64, 8, 3), (128, 128, 8, 2), (64, 64, 4, 3)]
    runs = {"x".join(map(str, shape)): lambda s=shape: run(*s) for shape in shapes}

    def check():
        parts = [t[:2].double() for t in (q, k, v)]
        return o[:2], torch.nn.functional.scaled_dot_product_attention(*parts, is_causal=causal), 5e-3

    return runs, check, 4 * heads * n * n * d / (2 if causal else 1), "TFLOPS"


def causal_attention(device, small):
    return attention(device, small, True)


CASES = (elementwise, softmax, layer_norm, matmul, attention, causal_attention)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="tiny shapes, to try the program")
    parser.add_argument("--only", default="", help="names of cases, with commas")
    parser.add_argument("--seconds", type=float, default=0.3, help="of each measurement")
    options = parser.parse_args()
    devices = ["aule"] + (["cuda"] if torch.cuda.is_available() else [])
    print(f"{'case':18} {'device':6} {'shape':22} {'ms':>9} {'rate':>9}  error   ratio")
    wrong = False
    for case in CASES:
        if options.only and case.__name__ not in options.only.split(","):
            continue
        times = {}
        for device in devices:
            torch.manual_seed(0)
            runs, check, work, unit = case(device, options.small)
            try:
                name, times[device] = best(device, runs, options.seconds)
            except Exception as error:
                print(f"{case.__name__:18} {device:6} {type(error).__name__}: {str(error)[:200]}", flush=True)
                continue
            list(runs.values())[0]()
            actual, expected, tolerance = check()
            error = (actual.double().cpu() - expected.cpu()).abs().max().item()
            wrong |= not error < tolerance
            rate = work / times[device] / (1e9 if unit == "GB/s" else 1e12)
            ratio = f"{times['cuda'] / times['aule']:.2f}" if len(times) == 2 else ""
            row = f"{case.__name__:18} {device:6} {name:22} {times[device] * 1e3:9.3f} {rate:9.1f}"
            print(f"{row}  {error:.0e}   {ratio}", flush=True)
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())

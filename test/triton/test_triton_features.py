"""What kernels of packages have beside arithmetic: kinds of arguments, loops, descriptors, tuning, torch.library."""

import os

import pytest
import torch

triton = pytest.importorskip("triton", reason="triton is not installed")
import triton.language as tl  # noqa: E402

from torch_aule.triton import Unsupported  # noqa: E402
from torch_aule.triton.kernel import write_kernel  # noqa: E402
from torch_aule.triton.writer import Device  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore:.*TRITON_DEFAULT_FP_FUSION", "ignore:.*can_reorder")


@triton.jit
def loop_kernel(o, x, n, BLOCK: tl.constexpr):
    for i in range(0, n, BLOCK):
        at = i + tl.arange(0, BLOCK)
        tl.store(o + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)


@triton.jit
def nested_kernel(o, x, n, rows, BLOCK: tl.constexpr):
    for row in range(rows):
        if row % 2 == 0:
            for i in range(0, n, BLOCK):
                at = i + tl.arange(0, BLOCK)
                tl.store(o + row * n + at, tl.load(x + row * n + at, mask=at < n), mask=at < n)


@pytest.mark.parametrize("n", [1, 31, 64, 150])
def test_a_loop_that_yields_nothing_stores(device, n):
    x = torch.randn(5, n)
    out = torch.zeros(n, device=device)
    loop_kernel[(1,)](out, x[0].to(device), n, BLOCK=32)
    assert torch.equal(out.cpu(), x[0] * 2)
    out = torch.zeros(5, n, device=device)
    nested_kernel[(1,)](out, x.to(device), n, 5, BLOCK=32)
    expected = x.clone()
    expected[1::2] = 0
    assert torch.equal(out.cpu(), expected)


@triton.jit
def compare_kernel(o, n, bound: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    wide = (at + n).to(tl.int64)
    one = tl.where(wide < bound, 1, 0) + tl.where(wide <= bound, 2, 0) + tl.where(wide > bound, 4, 0)
    two = tl.where(wide >= bound, 8, 0) + tl.where(wide == bound, 16, 0) + tl.where(bound < wide, 32, 0)
    tl.store(o + at, one + two)
    tl.store(o + BLOCK + at, tl.minimum(wide, bound))
    tl.store(o + 2 * BLOCK + at, tl.maximum(wide, bound))


@pytest.mark.parametrize("bound", [-(1 << 40), -(1 << 31), -3, -1, 0, 5, 63, (1 << 31) - 1, 1 << 31, 1 << 40])
def test_64_bit_comparisons_with_constants(device, bound):
    n = -20
    out = torch.zeros(3, 64, dtype=torch.int64, device=device)
    compare_kernel[(1,)](out, n, bound, BLOCK=64)
    x = torch.arange(64) + n
    signs = [x < bound, x <= bound, x > bound, x >= bound, x == bound, x > bound]
    expected = sum(s.long() << i for i, s in enumerate(signs))
    assert torch.equal(out.cpu(), torch.stack([expected, x.clamp(max=bound), x.clamp(min=bound)]))


@triton.jit
def arguments_kernel(o, x, mask, bias, sizes, SCALES: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    n, step = sizes
    keep = (at < n) & tl.load(mask + at, mask=at < n, other=0)
    v = tl.load(x + at * step, mask=keep, other=0.0) * SCALES[0]
    if bias is not None:
        v += tl.load(bias + at, mask=at < n, other=0.0) * SCALES[1]
    tl.store(o + at, v, mask=at < n)


@pytest.mark.parametrize("with_bias", [False, True])
def test_bool_pointers_none_and_tuples(device, with_bias):
    x, mask = torch.randn(100), torch.rand(50) < 0.5
    bias = torch.randn(50) if with_bias else None
    out = torch.zeros(50, device=device)
    given = bias.to(device) if with_bias else None
    arguments_kernel[(1,)](out, x.to(device), mask.to(device), given, (50, 2), (2.0, 4.0), BLOCK=64)
    expected = torch.where(mask, x[::2], torch.zeros(())) * 2 + (bias * 4 if with_bias else 0)
    assert torch.allclose(out.cpu(), expected, atol=1e-6)


@triton.jit
def descriptor_kernel(o, x, m, n, M: tl.constexpr, N: tl.constexpr):
    a = tl.make_tensor_descriptor(x, [m, n], [n, 1], [M, N])
    b = tl.make_tensor_descriptor(o, [m, n], [n, 1], [M, N])
    for i in range(0, n, N):
        b.store([0, i], a.load([0, i]) + 1)


def test_descriptors_of_the_device(device):
    x = torch.randn(13, 40)
    out = torch.zeros(13, 40, device=device)
    descriptor_kernel[(1,)](out, x.to(device), 13, 40, M=16, N=16)
    assert torch.equal(out.cpu(), x + 1)


@triton.jit
def host_descriptor_kernel(o, x, M: tl.constexpr, N: tl.constexpr):
    i = tl.program_id(0)
    o.store([i * M, 0], x.load([i * M, 0]) * 2)


def test_descriptors_of_the_host(device):
    TensorDescriptor = pytest.importorskip("triton.tools.tensor_descriptor").TensorDescriptor
    x = torch.randn(32, 16)
    out = torch.zeros(32, 16, device=device)
    pair = [TensorDescriptor.from_tensor(t, [8, 16]) for t in (out, x.to(device))]
    host_descriptor_kernel[(4,)](*pair, M=8, N=16)
    assert torch.equal(out.cpu(), x * 2)


@triton.jit
def sort_kernel(o, x, N: tl.constexpr, DOWN: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(o + at, tl.sort(tl.load(x + at), descending=DOWN))


@triton.jit
def topk_kernel(o, x, N: tl.constexpr, K: tl.constexpr):
    tl.store(o + tl.arange(0, K), tl.topk(tl.load(x + tl.arange(0, N)), K))


@pytest.mark.parametrize("n", [2, 16, 256])
@pytest.mark.parametrize("down", [False, True])
def test_sorted_values(device, n, down):
    x = torch.randn(n)
    out = torch.zeros(n, device=device)
    sort_kernel[(1,)](out, x.to(device), N=n, DOWN=down)
    assert torch.equal(out.cpu(), x.sort(descending=down).values)
    if n >= 16:
        out = torch.zeros(4, device=device)
        topk_kernel[(1,)](out, x.to(device), N=n, K=4)
        assert torch.equal(out.cpu(), x.topk(4).values)


@triton.jit
def affine(a0, b0, a1, b1):
    return a0 * a1, b0 * a1 + b1


@triton.jit
def recurrence_kernel(o, a, b, T: tl.constexpr, D: tl.constexpr, BACKWARDS: tl.constexpr):
    at = tl.arange(0, T)[:, None] * D + tl.arange(0, D)[None, :]
    _, h = tl.associative_scan((tl.load(a + at), tl.load(b + at)), 0, affine, reverse=BACKWARDS)
    tl.store(o + at, h)


@pytest.mark.parametrize("backwards", [False, True])
def test_scans_of_pairs_with_an_order(device, backwards):
    a, b = torch.rand(32, 8), torch.randn(32, 8)
    out = torch.zeros(32, 8, device=device)
    recurrence_kernel[(1,)](out, a.to(device), b.to(device), T=32, D=8, BACKWARDS=backwards)
    h, rows = torch.zeros(8).double(), []
    for t in reversed(range(32)) if backwards else range(32):
        h = h * a[t] + b[t]
        rows.append(h)
    expected = torch.stack(rows[::-1] if backwards else rows)
    assert (out.cpu() - expected).abs().max() < 1e-5


@triton.jit
def batch_dot_kernel(o, x, y, B: tl.constexpr, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    b, m, k, n = tl.arange(0, B), tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    left = tl.load(x + b[:, None, None] * (M * K) + m[None, :, None] * K + k[None, None, :])
    right = tl.load(y + b[:, None, None] * (K * N) + k[None, :, None] * N + n[None, None, :])
    at = b[:, None, None] * (M * N) + m[None, :, None] * N + n[None, None, :]
    tl.store(o + at, tl.dot(left, right, input_precision="ieee"))


def test_products_of_batches(device):
    x, y = torch.randn(4, 16, 32), torch.randn(4, 32, 16)
    out = torch.zeros(4, 16, 16, device=device)
    batch_dot_kernel[(1,)](out, x.to(device), y.to(device), B=4, M=16, K=32, N=16)
    assert (out.cpu() - x.double() @ y.double()).abs().max() < 1e-4


@triton.jit
def assembly_kernel(o):
    tl.store(o, tl.inline_asm_elementwise("mov.u32 $0, 7;", "=r", [], dtype=tl.int32, is_pure=True, pack=1))


@triton.jit
def address_kernel(o, x):
    row = tl.load(x).to(tl.pointer_type(tl.float32))
    tl.store(o, tl.load(row))


@pytest.mark.parametrize("kernel, words", [(assembly_kernel, "inline_asm"), (address_kernel, "int_to_ptr")])
def test_refusals_name_the_line(device, kernel, words):
    given = (torch.zeros(1, dtype=torch.int32, device=device), torch.zeros(1, dtype=torch.int64, device=device))
    with pytest.raises(Unsupported, match=rf"^\S*{os.path.basename(__file__)}:\d+: .*{words}"):
        kernel[(1,)](*given[: len(kernel.arg_names)])


def test_types_are_refused_with_their_line(device):
    text = """
module {
  tt.func public @narrow(%x: !tt.ptr<f32>) attributes {noinline = false} {
    %0 = tt.load %x : !tt.ptr<f32> loc(#loc1)
    %1 = tt.fp_to_fp %0, rounding = rtne : f32 -> f8E4M3B11FNUZ loc(#loc2)
    tt.return loc(#loc)
  } loc(#loc)
} loc(#loc)
#loc = loc("narrow.py":1:1)
#loc1 = loc("narrow.py":2:1)
#loc2 = loc("narrow.py":3:1)
"""
    with pytest.raises(Unsupported, match=r"^narrow.py:3: the type f8E4M3B11FNUZ is not served on aule$"):
        write_kernel(text, Device(), 32)


@triton.autotune(
    configs=[triton.Config({"BLOCK": 32}, num_warps=1), triton.Config({"BLOCK": 128}, num_warps=4)],
    key=["n"],
    reset_to_zero=["o"],
)
@triton.heuristics({"WHOLE": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def tuned_kernel(o, x, n, BLOCK: tl.constexpr, WHOLE: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if WHOLE:
        tl.atomic_add(o + at, tl.load(x + at))
    else:
        tl.atomic_add(o + at, tl.load(x + at, mask=at < n), mask=at < n)


@pytest.mark.parametrize("n", [256, 300])
def test_tuning_and_heuristics(device, n):
    x = torch.randn(n)
    out = torch.zeros(n, device=device)
    tuned_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](out, x.to(device), n)
    assert tuned_kernel.best_config.kwargs["BLOCK"] in (32, 128)
    assert torch.equal(out.cpu(), x)


def test_triton_operators_of_torch_library(device):
    library = f"aule_test::doubled_{os.getpid()}"

    @torch.library.triton_op(library, mutates_args={})
    def doubled(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        torch.library.wrap_triton(loop_kernel)[(1,)](out, x, x.numel(), BLOCK=32)
        return out

    x = torch.randn(70)
    assert torch.equal(doubled(x.to(device)).cpu(), x * 2)

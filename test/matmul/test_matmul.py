"""Matrix products against the CPU: layouts, odd sizes, dtypes, epilogues."""

import runpy

import pytest
import torch

from helpers import (
    FLOATS,
    RELATIVE_TOLERANCES,
    assert_close,
    assert_close_to_cpu,
    check_program,
    program,
    random_tensor,
    relative_error,
    to_device,
    without,
)

pytestmark = pytest.mark.current_lavapipe

# k adds rounding errors; 16-bit results are rounded once.
TOLERANCE = {torch.float32: 1e-4, torch.float16: 2e-2, torch.bfloat16: 1e-1}


def check(function, *args, dtype=torch.float32):
    return assert_close_to_cpu(function, *args, atol=TOLERANCE.get(dtype, 0), rtol=TOLERANCE.get(dtype, 0) and 1e-2)


def matrix(rows, cols, layout, dtype):
    if layout == "n":
        return random_tensor(rows, cols, dtype=dtype)
    if layout == "t":
        return random_tensor(cols, rows, dtype=dtype).t()
    if layout == "offset":
        return random_tensor(rows + 2, cols + 3, dtype=dtype)[1:-1, 2:-1]
    return random_tensor(rows, 2 * cols, dtype=dtype)[:, ::2]


@pytest.mark.current_long
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("a", ["n", "t", "offset"])
@pytest.mark.parametrize("b", ["n", "t", "step"])
def test_layouts(a, b, dtype):
    for m, k, n in [(64, 32, 48), (37, 19, 45), (5, 64, 130)]:
        check(torch.mm, matrix(m, k, a, dtype), matrix(k, n, b, dtype), dtype=dtype)


@pytest.mark.current_long
@pytest.mark.parametrize(
    "m,k,n", [(1, 1, 1), (1, 70, 33), (33, 70, 1), (3, 5, 2), (8, 16, 8), (65, 17, 9), (2, 300, 100), (100, 40, 3)]
)
def test_thin(m, k, n):
    check(torch.mm, random_tensor(m, k), random_tensor(k, n))
    check(torch.mm, random_tensor(m, k), random_tensor(n, k).t())


@pytest.mark.sampled(8)
@pytest.mark.current_long
@pytest.mark.parametrize("a", ["n", "t", "step"])
@pytest.mark.parametrize("b", ["n", "t", "offset"])
@pytest.mark.parametrize("m,k,n", [(64, 128, 48), (73, 402, 85), (10, 1100, 213), (2, 640, 256), (1, 1100, 2003)])
def test_long_k(m, k, n, a, b):
    """Products that lavapipe makes by several launches, each adding its part of k, and what does not divide."""
    x, y, c = matrix(m, k, a, torch.float32), matrix(k, n, b, torch.float32), random_tensor(m, n)
    check(torch.mm, x, y)
    check(lambda c, x, y: torch.addmm(c, x, y, beta=0.5, alpha=-2), c, x, y)
    check(lambda c, x, y: c.addmm_(x, y, beta=2), c, x, y)
    check(lambda c, x, y: torch.addmm(c[0], x, y), c, x, y)
    check(lambda x, y: torch.mm(x, y, out=torch.full((n, m), float("nan"), device=x.device).t()), x, y)
    check(torch.mv, x, y[:, 0])


@pytest.mark.current_long
@pytest.mark.validated
@pytest.mark.parametrize("transposed", [False, True])
def test_long_k_batches(transposed):
    a, b, c = random_tensor(3, 33, 450), random_tensor(3, 450, 50), random_tensor(3, 33, 50)
    if transposed:
        b = b.mT.contiguous().mT
    check(torch.bmm, a, b)
    check(torch.matmul, a, b[:1])
    check(lambda c, a, b: torch.baddbmm(c, a, b, beta=-1, alpha=0.5), c, a, b)


@pytest.mark.parametrize("m,k,n", [(0, 3, 4), (3, 0, 4), (3, 4, 0), (0, 0, 0)])
def test_empty(m, k, n):
    check(torch.mm, random_tensor(m, k), random_tensor(k, n))
    check(lambda c, a, b: torch.addmm(c, a, b, beta=2), random_tensor(m, n), random_tensor(m, k), random_tensor(k, n))


@pytest.mark.validated
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.int16, torch.float64])
def test_exact_dtypes(dtype):
    a, b, c = random_tensor(13, 21, dtype=dtype), random_tensor(21, 35, dtype=dtype), random_tensor(13, 35, dtype=dtype)
    assert_close_to_cpu(torch.mm, a, b)
    assert_close_to_cpu(lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=3), c, a, b)


@pytest.mark.current_long
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(45,), (37, 45), (37, 1), (1, 45), ()])
def test_addmm_broadcast(shape, dtype):
    a, b, c = random_tensor(37, 20, dtype=dtype), random_tensor(20, 45, dtype=dtype), random_tensor(*shape, dtype=dtype)
    check(lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=-2), c, a, b, dtype=dtype)


@pytest.mark.current_long
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("m,k,n", [(64, 64, 48), (130, 72, 96), (8, 64, 128), (1, 64, 64), (33, 40, 17)])
def test_results_are_rounded_to_nearest_even(m, k, n, dtype):
    """Integers whose sums are exact in float32 and too long for 16 bits."""
    most = 8 if dtype == torch.bfloat16 else 30
    a, b = (torch.randint(-most, most + 1, size).to(dtype) for size in ((m, k), (k, n)))
    exact = a.double() @ b.double()
    assert torch.equal((a.to("aule") @ b.to("aule")).cpu(), exact.to(dtype))
    assert torch.equal(torch.addmm(a[:1, :1].to("aule"), a.to("aule"), b.to("aule")).cpu(), (exact + a[0, 0]).to(dtype))


@pytest.mark.vector_widths
def test_beta_zero_ignores_nan():
    a, b = random_tensor(9, 8), random_tensor(8, 7)
    check(lambda c, a, b: torch.addmm(c, a, b, beta=0), torch.full((9, 7), float("nan")), a, b)


def test_infinity_stays_in_its_column():
    a, b = torch.ones(3, 5), torch.ones(5, 9)
    b[4, 2] = float("inf")
    check(torch.mm, a, b)
    a[1, 4] = float("-inf")
    check(torch.mm, a, torch.ones(5, 9))


@pytest.mark.validated
def test_in_place_and_out():
    a, b, c = random_tensor(17, 17), random_tensor(17, 17), random_tensor(17, 17)
    check(lambda c, a, b: c.clone().addmm_(a, b, beta=0.3), c, a, b)
    da, db = to_device((a, b))
    wide = torch.zeros(17, 40, device="aule")
    torch.mm(da, db, out=wide[:, 3:37:2])
    assert_close(wide[:, 3:37:2], a @ b, atol=1e-4)
    assert wide[:, 37:].abs().sum() == 0 and wide[:, 4:38:2].abs().sum() == 0
    out = torch.empty(0, device="aule")
    assert_close(torch.mm(da, db.t(), out=out), a @ b.t(), atol=1e-4)
    assert_close(torch.mm(da, db, out=da), a @ b, atol=1e-4)


@pytest.mark.validated
@pytest.mark.parametrize("dtype", FLOATS)
def test_batches(dtype):
    a, b = random_tensor(6, 11, 20, dtype=dtype), random_tensor(6, 20, 9, dtype=dtype)
    check(torch.bmm, a, b, dtype=dtype)
    check(
        torch.bmm,
        a.transpose(0, 1).contiguous().transpose(0, 1),
        b.transpose(1, 2).contiguous().transpose(1, 2),
        dtype=dtype,
    )
    check(torch.matmul, a, b[:1], dtype=dtype)
    check(torch.matmul, a[0].expand(6, 11, 20), b, dtype=dtype)
    check(torch.matmul, a.view(2, 3, 11, 20), b.view(2, 3, 20, 9), dtype=dtype)
    c = random_tensor(11, 9, dtype=dtype)
    check(lambda c, a, b: torch.baddbmm(c, a, b, beta=2, alpha=0.5), c, a, b, dtype=dtype)
    check(lambda c, a, b: torch.addbmm(c, a, b, beta=2, alpha=0.5), c, a, b, dtype=dtype)


@pytest.mark.current_long
@pytest.mark.vector_widths
@pytest.mark.parametrize("dtype", FLOATS)
def test_vectors(dtype):
    m, v, w = random_tensor(30, 21, dtype=dtype), random_tensor(21, dtype=dtype), random_tensor(30, dtype=dtype)
    check(torch.mv, m, v, dtype=dtype)
    check(torch.matmul, w, m, dtype=dtype)
    check(lambda w, m, v: torch.addmv(w, m, v, beta=2, alpha=3), w, m, v, dtype=dtype)
    check(torch.dot, v, random_tensor(42, dtype=dtype)[::2], dtype=dtype)
    check(torch.outer, v, w, dtype=dtype)


def test_long_dot():
    check(torch.dot, random_tensor(10001), random_tensor(10001))


@pytest.mark.current_long
def test_linear_backward():
    x, w, b = (
        random_tensor(4, 7, 33, requires_grad=True),
        random_tensor(18, 33, requires_grad=True),
        random_tensor(18, requires_grad=True),
    )

    def run(x, w, b):
        y = torch.nn.functional.linear(x, w, b)
        return (y, *torch.autograd.grad((y * y).sum(), (x, w, b)))

    assert_close_to_cpu(run, x, w, b, atol=1e-3, rtol=1e-4)


def test_bad_arguments():
    a = torch.ones(3, 4, device="aule")
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        torch.mm(a, a)
    with pytest.raises(RuntimeError, match="dtype"):
        torch.mm(a, torch.ones(4, 2, device="aule", dtype=torch.float16))
    with pytest.raises(RuntimeError):
        torch.mm(a, torch.ones(4, 2))


@pytest.mark.validated
def test_kernels_of_other_devices():
    """The shared-memory and matrix-vector kernels, which lavapipe is never given otherwise."""
    check_program("matmul_other_devices", **without("subgroup_shuffle"))


@pytest.mark.sampled(6)
@pytest.mark.without_shuffles
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize(
    "m,k,n,kind",
    [
        (40, 72, 48, "NT"),
        (37, 45, 35, "TN"),
        (8, 1100, 16, "NN"),
        (40, 64, 70, "TT"),
        (200, 1300, 300, "NN"),  # 128 whole tiles, and 12 that are shared
        (224, 1408, 224, "TN"),  # all tiles are shared
    ],
)
def test_matrix_units(m, k, n, kind, dtype):
    """Ragged tiles, operands that lie either way, the added matrix, k and tiles shared between workgroups.

    tools/run_tests.py runs this where lavapipe takes its cooperative matrices for it.
    """
    a, b = matrix(2 * m, k, "n", dtype).view(2, m, k), matrix(2 * k, n, "n", dtype).view(2, k, n)
    a = a.transpose(1, 2).contiguous().transpose(1, 2) if kind[0] == "T" else a
    b = b.transpose(1, 2).contiguous().transpose(1, 2) if kind[1] == "T" else b
    c = random_tensor(*((n,) if kind == "NT" else (m, n)), dtype=dtype)
    expected = 0.5 * torch.bmm(a.double(), b.double()) + 2 * c.double()
    out = torch.full((2, m, n), float("nan"), dtype=dtype, device="aule")
    da, db, dc = to_device((a, b, c))
    torch.baddbmm(dc, da, db, beta=2, alpha=0.5, out=out)
    assert_close(out.double(), expected, rtol=8e-3 if dtype == torch.bfloat16 else 1e-3, atol=TOLERANCE[dtype])


@pytest.mark.sampled(6)
@pytest.mark.without_shuffles
@pytest.mark.parametrize("kind", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("m,k,n", [(64, 300, 400), (33, 257, 129), (300, 1000, 40)])
def test_float32_splits(m, k, n, kind):
    """k shared between workgroups: ragged tiles, more rows than columns, the added matrix, batches."""
    a, b, c = random_tensor(2, m, k), random_tensor(2, k, n), random_tensor(n)
    a = a.transpose(1, 2).contiguous().transpose(1, 2) if kind[0] == "T" else a
    b = b.transpose(1, 2).contiguous().transpose(1, 2) if kind[1] == "T" else b
    out = torch.full((2, m, n), float("nan"), device="aule")
    da, db, dc = to_device((a, b, c))
    torch.baddbmm(dc, da, db, beta=2, alpha=0.5, out=out)
    expected = 0.5 * torch.bmm(a.double(), b.double()) + 2 * c.double()
    assert relative_error(out, expected) < RELATIVE_TOLERANCES[torch.float32]


@pytest.mark.sampled(6)
@pytest.mark.current_long
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("m", [1, 3, 7, 16])
def test_few_rows(m, dtype):
    """Whole 16-byte chunks, b along either side, few columns instead of few rows; k with and without a rest."""
    for k, n in ((136, 72), (77, 64)):
        a, b, c = (
            random_tensor(m, 2 * k if k % 8 else k, dtype=dtype)[:, :k],
            random_tensor(k, n, dtype=dtype),
            random_tensor(n, dtype=dtype),
        )
        along_k = b.t().contiguous().t()
        for weight in (b, along_k):
            check(lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=0.5), c, a, weight, dtype=dtype)
        check(torch.mm, along_k.t(), a.t(), dtype=dtype)
    check(torch.bmm, random_tensor(3, m, 40, dtype=dtype), random_tensor(3, 40, 24, dtype=dtype), dtype=dtype)


@pytest.mark.sampled(0)
@pytest.mark.current_long
def test_large_tiles_and_wide_vectors():
    """The kernels of devices with real shared memory that lavapipe is given only without shuffles."""
    check_program(
        "matmul_large_tiles",
        timeout=400,  # NVIDIA's compiler takes 3 s for each of eight pipelines, more where all cores compile
        **without("subgroup_shuffle"),
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_float32_of_16_bit_matrices(dtype):
    """`out_dtype`: sums that are not rounded to 16 bits, as on CUDA."""
    a, b = torch.randn(3, 37, 45).to(dtype), torch.randn(3, 45, 29).to(dtype)
    c, product = torch.randn(3, 37, 29), a.double() @ b.double()
    da, db, dc = to_device((a, b, c))
    wide = {"out_dtype": torch.float32}

    def check_sums(actual, expected):
        assert actual.dtype == torch.float32
        assert_close(actual.double(), expected, rtol=1e-5, atol=1e-4)

    check_sums(torch.mm(da[0], db[0], **wide), product[0])
    check_sums(torch.bmm(da, db, **wide), product)
    check_sums(torch.addmm(dc[0], da[0], db[0], beta=2, alpha=0.5, **wide), 2 * c[0].double() + 0.5 * product[0])
    check_sums(torch.baddbmm(dc, da, db, **wide), c.double() + product)
    half = c.to(dtype)
    check_sums(torch.baddbmm(half.to("aule"), da, db, **wide), half.double() + product)
    check_sums(torch.bmm(da, db, **wide, out=torch.empty(3, 37, 29, device="aule")), product)
    check_sums(torch.mm(db[0].t(), da[0].t(), **wide), product[0].t())
    assert torch.equal(torch.mm(da[0], db[0], out_dtype=dtype), torch.mm(da[0], db[0]))
    with pytest.raises(RuntimeError, match="mm: expected out_dtype"):
        torch.mm(da[0], db[0], out_dtype=torch.float64)
    with pytest.raises(RuntimeError, match="mm: expected out to have dtype Float"):
        torch.mm(da[0], db[0], **wide, out=torch.empty(0, dtype=dtype, device="aule"))


def test_int8():
    """Exact to the last bit: of two's complement, of odd sizes, of operands that lie either way."""
    runpy.run_path(program("matmul_int8"))
    with pytest.raises(RuntimeError, match="Char"):
        torch._int_mm(torch.ones(4, 4, device="aule"), torch.ones(4, 4, device="aule"))


@pytest.mark.validated
def test_int8_kernels_of_other_devices():
    """Packed dot products, and matrix units where lavapipe has them (tools/run_tests.py)."""
    check_program("matmul_int8", **without("subgroup_shuffle"))


@pytest.mark.validated
def test_lower_precision():
    """Products of 16-bit pieces, where the device has matrix units for them: float16 pieces on lavapipe."""
    check_program(
        "matmul_lower_precision",
        TORCH_AULE_OVERRIDES="float32_pieces=float16",
        **without("subgroup_shuffle"),
    )

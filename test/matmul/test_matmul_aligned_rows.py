"""16-bit products with rows that start between 16-byte boundaries: the plan copies them to rows that do not.

tools/run_tests.py runs this where lavapipe takes its cooperative matrices too. `aligned_rows="always"` gives the small
products here the plan of large ones. Memory around operands is NaN, which one element too many would bring into a
result, and memory around results keeps what it had.
"""

import random

import pytest
import torch

import torch_aule
from helpers import assert_close, to_device

pytestmark = pytest.mark.without_shuffles

DTYPES = [torch.float16, torch.bfloat16]
TOLERANCE = {torch.float16: 1e-3, torch.bfloat16: 8e-3}  # of the largest element: a result is rounded once
MARK = 768.0  # exact in both dtypes


def placed(batches, rows, columns, layout, offset, longer, dtype, fill):
    """A matrix for each batch inside a flat tensor of `fill`: (flat, view, whether an element is the view's)."""
    inner, outer = (columns, rows) if layout == "row" else (rows, columns)
    ld = inner + longer
    size = offset + batches * outer * ld + 11
    strides = (outer * ld, ld, 1) if layout == "row" else (outer * ld, 1, ld)
    flat = torch.full((size,), fill, dtype=dtype, device="aule")
    own = torch.zeros(size, dtype=torch.bool)
    own.as_strided((batches, rows, columns), strides, offset).fill_(True)
    return flat, flat.as_strided((batches, rows, columns), strides, offset), own


def padded(layout, inner):
    """A place whose rows of `inner` elements begin at 16-byte boundaries, and end between them."""
    return layout, 8, -inner % 8 + 8 * (inner % 2)


def check_product(rng, batches, m, k, n, dtype, layouts, with_c=None):
    """`layouts` of a, b and out, with random offsets and rests of rows; or all three of each."""
    nan = float("nan")
    places = layouts
    if isinstance(layouts, str):
        places = [(layout, rng.randrange(9), rng.choice([0, 0, 1, 2, 5, 8])) for layout in layouts.split()]
    a, b = torch.randn(batches, m, k).to(dtype), torch.randn(batches, k, n).to(dtype)
    _, da, _ = placed(batches, m, k, *places[0], dtype, nan)
    _, db, _ = placed(batches, k, n, *places[1], dtype, nan)
    flat, out, own = placed(batches, m, n, *places[2], dtype, MARK)
    da.copy_(a)
    db.copy_(b)
    expected = a.double() @ b.double()
    if with_c is not None:
        c = torch.randn(*((n,) if with_c == "bias" else (batches, m, n))).to(dtype)
        expected = 0.5 * expected + 2 * c.double()
        torch.baddbmm(c.to("aule"), da, db, beta=2, alpha=0.5, out=out)
    else:
        torch.bmm(da, db, out=out)
    scale = expected.abs().max().item() + 1e-30
    error = (out.cpu().double() - expected).abs().max().item() / scale
    case = (batches, m, k, n, da.stride(), db.stride(), out.stride(), da.storage_offset(), db.storage_offset())
    assert error <= TOLERANCE[dtype], (error, case)  # a NaN compares false
    assert bool((flat.cpu()[~own] == MARK).all()), case


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layouts", ["row row row", "col col row", "row col row", "col row col"])
def test_small_sizes(layouts, dtype, override):
    override(aligned_rows="always")
    rng = random.Random(layouts)
    for size in range(1, 41, 3):
        m, k, n = rng.sample([size, rng.randrange(5, 41), rng.randrange(5, 41)], 3)
        check_product(rng, rng.choice([1, 1, 3]), m, k, n, dtype, layouts)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("m,k,n", [(127, 129, 65), (33, 1001, 40), (17, 40, 1001), (1001, 23, 19)])
def test_larger_sizes(m, k, n, dtype, override):
    override(aligned_rows="always")
    check_product(random.Random(m), 2, m, k, n, dtype, "row row row", with_c="bias" if m < n else "matrix")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_c", [None, "bias", "matrix"])
def test_only_rows_of_the_result_are_odd(with_c, dtype, override):
    """Aligned k-major operands: rows of a tile are 8 apart, and columns begin before the first one."""
    override(aligned_rows="always")
    rng = random.Random(with_c)
    for m, n in [(8, 5), (rng.randrange(9, 70), rng.randrange(5, 70)), (300, 31), (15, 1001)]:
        k, batches = rng.choice([8, 24, 64, 104]), rng.choice([1, 2])
        places = [("row", 0, 0), ("col", 8, 8), ("row", rng.randrange(9), rng.choice([0, 0, 3, 8]))]
        check_product(rng, batches, m, k, n, dtype, places, with_c)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("with_c", [None, "bias", "matrix"])
def test_last_tiles_that_begin_earlier(with_c, dtype):
    """Rows and columns that end inside a tile, of vec8s or of any number where operands allow it."""
    rng = random.Random(f"{with_c} {dtype}")
    for layouts in ("row row row", "row col row", "col row row", "col col col"):
        m, n = rng.choice([(rng.randrange(33, 100), 8 * rng.randrange(5, 16)), (8 * rng.randrange(5, 16), 40)])
        k, batches = rng.choice([16, 24, 40, 100, 300]), rng.choice([1, 2])
        sizes = ((m, k), (k, n), (m, n))
        places = [
            padded(layout, columns if layout == "row" else rows)
            for layout, (rows, columns) in zip(layouts.split(), sizes, strict=True)
        ]
        check_product(rng, batches, m, k, n, dtype, places, with_c)


@pytest.mark.parametrize("dtype", DTYPES)
def test_two_parts(dtype, override):
    """128 tiles and the rest apart, of rows or of a transposed result's columns, with all that an epilogue has."""
    override(product_parts="always")
    rng = random.Random(str(dtype))
    m, n, k = rng.randrange(520, 600), 248, rng.choice([16, 40])
    check_product(rng, 1, m, k, n, dtype, [("row", 0, 0), ("col", 8, 0), ("row", 8, 8)], rng.choice(["bias", "matrix"]))
    check_product(rng, 1, n, k, m, dtype, [("row", 0, 0), ("col", 8, 0), ("col", 0, 0)])
    x, w, b = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype) / 8, torch.randn(n).to(dtype)
    residual = torch.randn(m, n).to(dtype)
    out = torch.ops.aule.linear_bias_act(*to_device((x, w, b)), "gelu", residual.to("aule"))
    expected = torch.nn.functional.gelu(x.double() @ w.double().T + b.double()) + residual.double()
    assert_close(out.double(), expected, rtol=0, atol=TOLERANCE[dtype] * expected.abs().max().item())


@pytest.mark.parametrize("dtype", DTYPES)
def test_vocabulary(dtype, override):
    """GPT-2's 50,257 columns with few rows: the loss's product, and both gradients."""
    override(aligned_rows="always")
    x, w, grad = torch.randn(24, 16).to(dtype), torch.randn(50257, 16).to(dtype), torch.randn(24, 50257).to(dtype)
    dx, dw = (t.to("aule").requires_grad_() for t in (x, w))
    y = torch.nn.functional.linear(dx, dw)
    got = y, *torch.autograd.grad(y, (dx, dw), grad.to("aule"))
    x, w, grad = x.double(), w.double(), grad.double()
    for actual, expected in zip(got, (x @ w.t(), grad @ w, grad.t() @ x)):
        assert (actual.detach().cpu().double() - expected).abs().max() <= TOLERANCE[dtype] * expected.abs().max()


def check_silu(actual, x, w, bias, residual):
    """Roundings are those of both terms: the residual may cancel what was rounded before it."""
    term = torch.nn.functional.silu(x.double() @ w.double().t() + bias.double())
    error = (actual.cpu().double() - term - residual.double()).abs()
    assert (error <= 0.03 + 8e-3 * (term.abs() + residual.double().abs())).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("weight_order", ["rows", "columns"])
def test_epilogue_is_applied_once(weight_order, dtype, override):
    """Bias, activation and a residual, of odd columns: stored where they belong, and copied back."""
    override(aligned_rows="always")
    x, w, bias, residual = (torch.randn(*s).to(dtype) for s in ((37, 40), (51, 40), (51,), (37, 51)))
    weight = w if weight_order == "rows" else w.t().contiguous().t()
    actual = torch_aule.linear_bias_act(*to_device((x, weight, bias)), "silu", residual=residual.to("aule"))
    check_silu(actual, x, w, bias, residual)


@pytest.mark.parametrize("dtype", DTYPES)
def test_shared_batches_and_in_place(dtype, override):
    override(aligned_rows="always")
    a, b = torch.randn(1, 21, 35).to(dtype), torch.randn(3, 35, 27).to(dtype)
    da, db = to_device((a, b))
    expected = a.double() @ b.double()
    assert_close(torch.matmul(da, db).double(), expected, rtol=8e-3, atol=0.05)
    assert_close(torch.bmm(da.expand(3, 21, 35), db).double(), expected, rtol=8e-3, atol=0.05)
    c = torch.randn(21, 27).to(dtype)
    dc = c.to("aule")
    dc.addmm_(da[0], db[0], beta=0.5)
    assert_close(dc.double(), 0.5 * c.double() + expected[0], rtol=8e-3, atol=0.05)
    square = torch.randn(33, 33).to(dtype)
    dsquare = square.to("aule")
    torch.mm(dsquare, dsquare, out=dsquare)
    assert_close(dsquare.double(), square.double() @ square.double(), rtol=8e-3, atol=0.1)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layouts", ["row row row", "row col row", "col row row", "col col row", "row col col"])
def test_padded_rows(layouts, dtype):
    """Rows of operands and results that begin at 16-byte boundaries and end anywhere, with NaN after them."""
    rng = random.Random(layouts)
    sizes = [(9, 1, 33), (31, 33, 63), (40, 71, 39), (33, 64, 50), (70, 95, 8), (17, 200, 41)]
    for (m, k, n), with_c in zip(sizes, [None, "bias", "matrix"] * 2):
        a, b, out = layouts.split()
        places = [
            padded(a, k if a == "row" else m),
            padded(b, n if b == "row" else k),
            padded(out, n if out == "row" else m),
        ]
        check_product(rng, rng.choice([1, 3]), m, k, n, dtype, places, with_c)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layouts", ["row row row", "row col row", "col row row", "col col row"])
def test_padded_rows_in_splits(layouts, dtype):
    """The last split of k begins with the vec8 in which a row ends."""
    for m, k, n in [(9, 3001, 13), (21, 1027, 7)]:
        a, b, out = layouts.split()
        places = [padded(a, k if a == "row" else m), padded(b, n if b == "row" else k), padded(out, n)]
        check_product(random.Random(k), 1, m, k, n, dtype, places)


@pytest.mark.parametrize("dtype", DTYPES)
def test_residual_of_padded_rows(dtype):
    m, k, n = 37, 43, 51
    x, w, bias = torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype), torch.randn(n).to(dtype)
    residual = torch.randn(m, n).to(dtype)
    operands = []
    for t in (x, w, residual):
        _, view, _ = placed(1, *t.shape, *padded("row", t.shape[1]), dtype, float("nan"))
        operands.append(view[0].copy_(t))
    dx, dw, dresidual = operands
    actual = torch_aule.linear_bias_act(dx, dw, bias.to("aule"), "silu", residual=dresidual)
    check_silu(actual, x, w, bias, residual)
